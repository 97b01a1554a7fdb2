"""Finds the files of installed packages and of the packages that they require."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from windowpane.errors import BundleError

OWN = "windowpane"
FROM_THE_CLUSTER = frozenset({"pyspark", "py4j"})
"""Spark puts its own PySpark on the path of every worker; another version would not understand its JVM."""
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "include", "test", "tests"})
_LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyi", ".pxd", ".pyx", ".c", ".h", ".hpp", ".a", ".pth"})

Files = dict[PurePosixPath, Path]
"""Where each file goes below site-packages, and where it is now."""


def files_of(packages: Iterable[str]) -> Files:
    """The files of windowpane, of these packages, and of everything they require."""
    found = dict(_folder(Path(__file__).parents[1]))
    for name in _with_requirements((OWN, *packages)):
        if name != OWN:
            found |= dict(_files(name))
    return found


def own_version() -> str:
    """The version of windowpane, which must be installed: its metadata name what it requires."""
    try:
        return metadata.version(OWN)
    except metadata.PackageNotFoundError:
        raise BundleError(
            "PACKAGE_NOT_FOUND", "windowpane is on the path but not installed, so nobody knows what it requires",
            "install it with pip, or set `bundle = false` in [spark]",
        ) from None  # fmt: skip


def normalized(name: str) -> str:
    """The spelling by which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _with_requirements(names: Iterable[str]) -> set[str]:
    """Names with those of all requirements. One that is not installed, for another platform say, is left out."""
    done, todo = set[tuple[str, frozenset[str]]](), [(normalized(name), frozenset[str]()) for name in names]
    while todo:
        name, extras = todo.pop()
        if (name, extras) in done or name in FROM_THE_CLUSTER:
            continue
        done.add((name, extras))
        todo += [each for each in _required(name, extras) if _is_installed(each[0])]
    return {name for name, _ in done}


def _required(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        requirements = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in requirements:
        text, _, marker = requirement.partition(";")
        found, needed = _NAME.match(text), _EXTRA.search(marker)
        is_wanted = needed is None or needed[1] in extras or name == OWN  # extras of ours go along if installed
        if found is not None and is_wanted:
            own = frozenset(extra.strip() for extra in (found[2] or "").split(",") if extra.strip())
            yield normalized(found[1]), own


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _files(name: str) -> Iterator[tuple[PurePosixPath, Path]]:
    if not _is_installed(name) or _is_editable(metadata.distribution(name)):
        yield from _module(name)
        return
    for file in metadata.distribution(name).files or ():
        path = PurePosixPath(file)
        if ".." not in path.parts and _is_needed(path):
            yield path, Path(str(file.locate()))


def _is_editable(distribution: metadata.Distribution) -> bool:
    origin = distribution.read_text("direct_url.json")
    return origin is not None and bool(json.loads(origin).get("dir_info", {}).get("editable"))


def _module(name: str) -> Iterator[tuple[PurePosixPath, Path]]:
    """A package or module that is on the path, though no installed distribution has its files."""
    spec = find_spec(name.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise BundleError(
            "PACKAGE_NOT_FOUND",
            f"{name} is neither installed here nor can it be imported, so it cannot go into the bundle",
            "install it beside windowpane, or correct its name",
        )
    origin = Path(spec.origin)
    if origin.name == "__init__.py":
        yield from _folder(origin.parent)
    else:
        yield PurePosixPath(origin.name), origin


def _folder(folder: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for path in folder.rglob("*"):
        below = PurePosixPath(path.relative_to(folder.parent))
        if path.is_file() and _is_needed(below):
            yield below, path


def _is_needed(path: PurePosixPath) -> bool:
    """Whether workers can use a file. Tests of libraries make up a third of the files, headers some megabytes."""
    is_left_out = path.suffix in _LEFT_OUT_SUFFIXES or _LEFT_OUT_FOLDERS.intersection(path.parts[:-1])
    return not is_left_out
