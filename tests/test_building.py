"""Wheels are built with the compiled library where there is a compiler, and without it elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windowpane.native import LIBRARY, compiled

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = [name for name in ("cc", "gcc", "clang") if shutil.which(name)]
PROBE = "import windowpane.native as n; print(n.compiled() is not None, n.__file__)"


def built(folder: Path, **environment: str) -> Path:
    command = [str(ROOT / "scripts" / "uv"), "build", "--wheel", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, env=os.environ | environment, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "site")
    return wheel


def probe(site: Path) -> list[str]:
    """Whether the installed package finds its library, and where it is."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], check=True, capture_output=True, text=True, cwd=site,
        env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.slow
def test_a_wheel_without_a_compiler_is_pure_python(tmp_path: Path) -> None:
    for number, environment in enumerate([{"WINDOWPANE_COMPILE": "0"}, {"CC": "false"}]):
        folder = tmp_path / str(number)
        assert built(folder, **environment).name.endswith("-py3-none-any.whl")
        assert probe(folder / "site") == ["False", str(folder / "site/windowpane/native/__init__.py")]


@pytest.mark.slow
@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
def test_a_wheel_with_a_compiler_has_the_library_for_this_platform(tmp_path: Path) -> None:
    name = built(tmp_path, WINDOWPANE_COMPILE="1").name
    assert "-py3-none-" in name
    assert not name.endswith("-any.whl")
    assert probe(tmp_path / "site") == ["True", str(tmp_path / "site/windowpane/native/__init__.py")]


@pytest.mark.slow
def test_a_compiler_that_fails_is_an_error_on_request(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        built(tmp_path, WINDOWPANE_COMPILE="1", CC="false")
    assert b"libwindowpane" in failed.value.stderr


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
def test_make_setup_has_compiled_the_library() -> None:
    assert compiled() is not None, f"{LIBRARY} is missing, or of other sources: run make setup"


def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    package = tmp_path / "windowpane" / "native"
    shutil.copytree(LIBRARY.parent, package)
    (package.parent / "__init__.py").touch()
    for file in package.glob("*.c"):
        file.write_text(file.read_text() + "\n")
    assert probe(tmp_path)[0] == "False"
    for file in package.glob("*.c"):
        file.unlink()
    assert probe(tmp_path)[0] == str(LIBRARY.exists()), "a bundle has no sources to compare with"
