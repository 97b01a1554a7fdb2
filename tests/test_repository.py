"""What must hold of the repository itself: its lock, its links, its make targets, and that it names no machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pyspark.sql import SparkSession

from windowpane.time import format_duration

ROOT = Path(__file__).resolve().parent.parent

REGISTRY = "pypi|pythonhosted|maven|mvnrepository|npmjs|anaconda|artifactory|nexus"
REGISTRY_HOST = re.compile(rf"(?:[\w-]+\.)*(?:{REGISTRY})(?:\.[\w-]+)*\.(?:org|com|io|net)\b", re.IGNORECASE)
REGISTRY_LINE = re.compile(rf"^.*(?:{REGISTRY}).*$", re.IGNORECASE | re.MULTILINE)
"""Finds the few lines in which a host may be. The host's own pattern takes seconds for all files."""
MACHINE_PATH = re.compile(r"(?<![\w.$}:/~-])/(?:home|root|Users|work|opt|tmp|mnt|srv)/[\w.-]+|\b[A-Z]:\\\\?Users\b")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)", re.MULTILINE | re.DOTALL)


@cache
def tracked() -> tuple[Path, ...]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("only a git checkout knows which files are tracked")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


@cache
def tracked_text() -> dict[str, str]:
    contents = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in tracked()}
    return {name: content.decode() for name, content in contents.items() if b"\0" not in content}


def found_in_tracked(pattern: re.Pattern[str]) -> list[str]:
    return [f"{name}: {match[0]}" for name, text in tracked_text().items() for match in pattern.finditer(text)]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRY_HOST, "https://files.pythonhosted" + ".org/packages"),
        (REGISTRY_HOST, "repo1.maven" + ".org"),
        (REGISTRY_HOST, "https://nexus.example" + ".com/simple"),
        (MACHINE_PATH, "see /" + "home/ada/windowpane"),
        (MACHINE_PATH, 'path = "/' + 'tmp/x"'),
        (MACHINE_PATH, "C:\\" + "Users"),
    ],
)
def test_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_no_registry_host_is_named() -> None:
    lines = "\n".join(found_in_tracked(REGISTRY_LINE))
    assert "maven" in lines, "lines that name no host are found"
    assert [match[0] for match in REGISTRY_HOST.finditer(lines)] == []


def test_no_machine_path_is_named() -> None:
    assert found_in_tracked(MACHINE_PATH) == []


def locked() -> dict[str, list[str]]:
    """The versions of each package in the lock: more than one where platforms differ."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return versions


def direct_dependencies() -> list[Requirement]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [Requirement(line) for line in pyproject["project"]["dependencies"] + pyproject["dependency-groups"]["dev"]]


@pytest.mark.parametrize("requirement", direct_dependencies(), ids=str)
def test_lock_satisfies_pyproject(requirement: Requirement) -> None:
    versions = locked().get(canonicalize_name(requirement.name), [])
    assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
    assert all(version in requirement.specifier for version in versions), "run `make lock`"


def test_every_locked_version_has_a_hash() -> None:
    entries = re.split(r"^(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    assert entries[0] == "", "the lock starts with a package, not with options"
    assert [entry.split()[0] for entry in entries[1:] if "--hash=sha256:" not in entry] == []


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    headings = re.findall(r"^#+ +(.+?) *$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if "://" in link:
            continue
        target, _, fragment = link.partition("#")
        linked = (page.parent / target).resolve() if target else page
        if not linked.exists() or (fragment and fragment not in anchors(linked)):
            broken.append(link)
    return broken


def test_links_between_pages_resolve() -> None:
    pages = [path for path in tracked() if path.suffix == ".md"]
    assert pages
    assert {str(page.relative_to(ROOT)): broken for page in pages if (broken := broken_links(page))} == {}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^  ([\w-]+) +\S", shown, re.MULTILINE)) == make_targets()


def test_pages_name_only_targets_that_exist() -> None:
    named = {
        target
        for path in tracked()
        if path.suffix == ".md"
        for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", path.read_text(), re.MULTILINE)
    }
    assert {"test", "demo"} <= named
    assert named <= make_targets()


@pytest.mark.parametrize(
    ("version", "accepted"), [("17.0.15", True), ("21-ea", True), ("1.8.0_402", False), ("11.0.2", False)]
)
def test_java_version_is_judged(version: str, accepted: bool, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    env = os.environ | {"JAVA_HOME": str(tmp_path)}
    run = subprocess.run([ROOT / "scripts" / "java"], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode == 0) is accepted
    assert len(run.stderr.splitlines()) == (0 if accepted else 1)


@pytest.mark.spark
def test_spark_starts_and_its_workers_see_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.warehouse.dir", str(tmp_path)).getOrCreate()
    try:
        seen = spark.sparkContext.parallelize([90_000_000], 1).map(format_duration).collect()
    finally:
        spark.stop()
    assert seen == ["1m 30s"]
