"""Bundles: what is in them, and that equal files give equal archives. tests/cluster runs one where nothing else is."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from windowpane.bundling.archive import write_archive
from windowpane.bundling.bundle import _digest, _members, default_folder, make_bundle
from windowpane.bundling.bytecode import compiled, compiled_path
from windowpane.bundling.distributions import _with_requirements, files_of
from windowpane.bundling.interpreter import PROGRAM, STANDARD_LIBRARY, interpreter_files
from windowpane.errors import BundleError
from windowpane.native import LIBRARY

MODULE = PurePosixPath("lib", "m.py")
SOURCE = b"NAMES = {'a', 'b', 'c'}\ndef f(x: int = 7) -> str:\n    return f'{x!r} \xc3\xa9'\n"


def test_windowpane_with_everything_it_requires_but_pyspark() -> None:
    names = _with_requirements(["windowpane"])
    assert {
        "pyarrow",
        "numpy",
        "duckdb",
        "pandas",
        "protobuf",
        "psycopg-binary",
        "sqlglot",
        "tzdata",
        "obstore",
    } <= names
    assert not names & {"pyspark", "py4j", "pytest", "mypy", "hypothesis"}


def test_files_that_workers_can_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_aggregates").mkdir()
    (tmp_path / "my_aggregates" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    files = files_of(["my_aggregates"])
    assert {
        "my_aggregates/__init__.py",
        "windowpane/spark/daemon.py",
        "pyarrow/__init__.py",
        "pandas/core/frame.py",
    } <= set(map(str, files))
    assert any(".libs/" in str(name) for name in files), "libraries that wheels bring along"
    library = PurePosixPath("windowpane", "native", LIBRARY.name)
    assert (library in files) == LIBRARY.exists(), "the compiled library goes along if there is one"
    assert not [name for name in files if "tests" in name.parts[:-1]]
    assert not [name for name in files if name.suffix in {".pyc", ".pyi", ".c"}]


def test_a_package_that_is_not_here() -> None:
    with pytest.raises(BundleError) as refused:
        files_of(["nonesuch"])
    assert refused.value.code == "PACKAGE_NOT_FOUND"


def test_the_interpreter_without_the_c_library() -> None:
    files = interpreter_files()
    assert PROGRAM in files
    assert STANDARD_LIBRARY / "os.py" in files
    assert all(path.is_file() for path in files.values())
    shared = {name.name for name in files if name.parent == PurePosixPath("lib")}
    assert any(name.startswith("libcrypto") for name in shared), "of the module _hashlib"
    assert not {name for name in shared if name.startswith(("libc.", "libm.", "ld-linux", "libpthread."))}


def test_compiled_modules_are_equal_and_need_no_source(tmp_path: Path) -> None:
    code = compiled(MODULE, SOURCE)
    assert code is not None
    script = (
        "import sys; from pathlib import PurePosixPath as P; from windowpane.bundling.bytecode import compiled;"
        f"sys.stdout.buffer.write(compiled(P({str(MODULE)!r}), {SOURCE!r}))"
    )
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed}
        again = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
        assert again.stdout == code
    file = tmp_path / "m.pyc"
    file.write_bytes(code)
    spec = importlib.util.spec_from_file_location("m", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.f() == "7 é"
    assert compiled(MODULE, b"def") is None, "a template that is no Python"
    assert compiled_path(MODULE).parent == PurePosixPath("lib", "__pycache__")


def test_an_archive_follows_from_its_files_alone(tmp_path: Path) -> None:
    archives = []
    for number in range(2):
        source = tmp_path / f"{number}.py"
        source.write_bytes(SOURCE)
        files = {MODULE: source, PROGRAM: source} if number else {PROGRAM: source, MODULE: source}
        archives.append(tmp_path / f"{number}.tar.gz")
        write_archive(archives[-1], _members(files))
        assert _digest(files) == _digest({MODULE: source, PROGRAM: source})
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as archive:
        modes = {entry.name: (entry.mode, entry.uid, entry.mtime) for entry in archive}
        about = archive.extractfile("bundle.json")
        assert about is not None
        assert json.load(about)["python"].startswith(f"{sys.version_info.major}.")
    assert modes["bin/python3"][0] == modes[str(PROGRAM)][0] == 0o755
    assert {rest[1:] for rest in modes.values()} == {(0, 315_532_800)}
    assert "lib/m.py" in modes
    assert str(compiled_path(MODULE)) in modes


def test_where_bundles_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "windowpane" / "bundles"
    (tmp_path / "windowpane").touch()
    with pytest.raises(BundleError) as refused:
        make_bundle()
    assert refused.value.code == "BUNDLE_FOLDER"
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BundleError) as refused:
        make_bundle()
    assert refused.value.code == "BUNDLE_PLATFORM"
