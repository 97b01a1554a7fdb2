"""Finds the files of the running Python: the program, the standard library, and the shared libraries of both."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from windowpane.errors import BundleError

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PROGRAM = PurePosixPath("bin", f"python{VERSION}")
STANDARD_LIBRARY = PurePosixPath("lib", f"python{VERSION}")
SITE_PACKAGES = STANDARD_LIBRARY / "site-packages"
_LEFT_OUT = frozenset(
    {"__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests",
     "tkinter", "turtledemo"}
)  # fmt: skip
_LEFT_OUT_MODULES = re.compile(r"(_?curses|_?curses_panel|_dbm|_gdbm|_tkinter|readline|nis|ossaudiodev|_test|_xx|xx)")
_LINE = re.compile(r"\s*(\S+) => (/\S+) \(0x[0-9a-f]+\)")
_OF_THE_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec))\.so\b")
"""Parts of the C library: these must be those of the machine that runs the program."""


def interpreter_files() -> dict[PurePosixPath, Path]:
    """Where each file goes, and where it is now."""
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    library = dict(_standard_library())
    modules = [path for path in library.values() if path.suffix == ".so"]
    shared = {PurePosixPath("lib", path.name): path for path in _shared_libraries(program, modules)}
    return library | shared | {PROGRAM: program}


def _standard_library() -> Iterator[tuple[PurePosixPath, Path]]:
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    base = Path(sys.base_prefix).resolve()
    for folder in sorted(_outside_of_environments(folders, base)):
        for place, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name not in _LEFT_OUT]
            for path in (Path(place, name) for name in names):
                below = path.relative_to(folder)
                if path.is_file() and _is_needed(below):
                    yield STANDARD_LIBRARY / below, path


def _outside_of_environments(folders: set[Path], base: Path) -> set[Path]:
    """`platstdlib` may name a folder of the virtual environment, which has packages only."""
    return {folder for folder in folders if folder.is_relative_to(base) and (folder / "os.py").is_file()} | {
        folder for folder in folders if (folder / "lib-dynload").is_dir()
    }


def _is_needed(below: Path) -> bool:
    top = below.parts[0]
    if top.startswith("config-") or below.suffix in {".pyc", ".a", ".exe"}:
        return False
    return top != "lib-dynload" or _LEFT_OUT_MODULES.match(below.name) is None


def _shared_libraries(program: Path, modules: list[Path]) -> set[Path]:
    """What the dynamic linker loads for them on this machine, without the C library. Links are followed when read.

    The linker only lists what it would load, for the program and all modules together.
    """
    folders = {module.parent for module in modules}
    assert len(folders) <= 1, "compiled modules of the standard library are in one folder"
    listing = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_PRELOAD": " ".join(f"./{module.name}" for module in modules)}
    listed = subprocess.run(  # noqa: S603
        [program, "-c", ""], env=os.environ | listing, cwd=next(iter(folders), None), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    found = {match[1]: Path(match[2]) for match in map(_LINE.match, listed.stdout.splitlines()) if match}
    return {path.parent / name for name, path in found.items() if _OF_THE_SYSTEM.match(name) is None}


def check_platform() -> None:
    """BundleError where a bundle could not run on the executors."""
    libc = platform.libc_ver()[0] or "another C library"
    if sys.platform != "linux" or libc != "glibc":
        raise BundleError(
            "BUNDLE_PLATFORM",
            f"a bundle is for the platform it is made on, and it needs Linux with glibc: this is {sys.platform} with "
            f"{libc}",
            _ELSEWHERE,
        )


_ELSEWHERE = (
    "run `windowpane bundle` on a Linux machine like the executors', and name the archive in [spark] bundle; "
    "or set `bundle = false` if windowpane is installed on every machine"
)
