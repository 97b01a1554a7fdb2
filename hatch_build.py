"""Compiles the optional C library of windowpane where a compiler exists; see docs/architecture.md, Compiled parts.

The library needs neither headers of Python nor those of librdkafka. Without a compiler, the wheel is pure Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

SWITCH = "WINDOWPANE_COMPILE"
"""0: compile nothing, although there is a compiler. 1: fail if the library cannot be compiled."""
FOLDER = Path("src", "windowpane", "native")
LIBRARY = "libwindowpane.so"
FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared")


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the library to a wheel. An editable installation gets it beside its sources."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root) / FOLDER
        if version == "editable":
            (source / LIBRARY).unlink(missing_ok=True)
            compile_library(source, source / LIBRARY)
            return
        self._made = tempfile.TemporaryDirectory()
        library = Path(self._made.name) / LIBRARY
        if compile_library(source, library):
            build_data["force_include"][str(library)] = f"windowpane/native/{LIBRARY}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(platform_tags())}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._made is not None:
            self._made.cleanup()


def compile_library(source: Path, library: Path) -> bool:
    """Whether the library was compiled. It is whole under its name."""
    compiler = _compiler()
    if compiler is None:
        return False
    draft = library.with_suffix(f".{os.getpid()}")
    files = sorted(source.glob("*.c"))
    command = [*compiler, *FLAGS, f'-DWINDOWPANE_SOURCES="{digest(files)}"', "-o", str(draft), *map(str, files)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  # the user's compiler
    if done.returncode == 0:
        draft.replace(library)
        return True
    draft.unlink(missing_ok=True)
    if os.environ.get(SWITCH) == "1":
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    sys.stderr.write(f"windowpane: no compiled library, {compiler[0]} failed: {done.stderr}\n")
    return False


def digest(files: Iterable[Path]) -> str:
    """As `windowpane.native` computes it, to recognize a library of other sources."""
    return blake2b(b"\0".join(file.read_bytes() for file in files), digest_size=8).hexdigest()


def _compiler() -> list[str] | None:
    wanted = os.environ.get(SWITCH)
    if wanted == "0" or sys.platform == "win32":
        return None
    given = os.environ.get("CC", "").split()
    found = given or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]
    if not found and wanted == "1":
        raise RuntimeError(f"{SWITCH}=1, and there is no C compiler on PATH: cc, gcc, clang, or the one that CC names")
    return found or None


def _platform(tags: Iterable[str]) -> str:
    """The tag of this machine itself: manylinux and musllinux promise what nobody has checked."""
    return next(tag for tag in tags if not tag.startswith(("manylinux", "musllinux")))
