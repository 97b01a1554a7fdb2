"""Every declared dependency is imported, every import is declared, in ranges that leave room for other packages."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOR_PYSPARK = {"pandas", "protobuf"}
"""Imported by PySpark alone, which does not declare what each of its parts needs."""
IMPORT = re.compile(
    r"^ *(?:from (\w+)[\w.]* import\b|import (\w+)\b(?![\w.]*;))|optional_module\(\"(\w+)\"", re.MULTILINE
)
"""Each import has a line of its own, ruff sees to that. A semicolon follows imports of Java."""
COMES_WITH = {"py4j": "pyspark", "pydantic-core": "pydantic"}
"""Parts of a declared package that are distributed by themselves, in the one version that fits it."""


def declared() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    return {canonicalize_name(each.name): each for each in map(Requirement, lines)}


def imported() -> set[str]:
    """Top-level modules that the package imports, also within functions, without those of Python."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    found = {name for text in texts for pair in IMPORT.findall(text) for name in pair if name}
    return found - sys.stdlib_module_names - {"windowpane"}


def modules_of(package: str) -> set[str]:
    """Top-level modules that a package installs."""
    files = distribution(package).files or []
    return {file.parts[0].partition(".")[0] for file in files}


def test_dependencies_are_what_is_imported() -> None:
    """Only declared packages are asked for their modules: to ask all that are installed takes seconds."""
    homes = {module: name for name in [*COMES_WITH, *declared()] for module in modules_of(name)}
    used = {homes.get(module, f"{module}, which is not declared") for module in imported()}
    assert {COMES_WITH.get(name, name) for name in used} | FOR_PYSPARK == set(declared())


def test_dependencies_are_ranges() -> None:
    exact = [str(each) for each in declared().values() if any(part.operator == "==" for part in each.specifier)]
    assert exact == []


def test_the_docs_name_the_jars_that_tests_run_with() -> None:
    script = (ROOT / "scripts" / "kafka-jars").read_text(encoding="utf-8")
    scala = re.findall(r"^scala=(.+)$", script, re.MULTILINE)[0]
    version = re.findall(r"SPARK_KAFKA_VERSION:-([\d.]+)\}", script)[0]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.toml")]
    pages += [*(ROOT / "examples").rglob("*.py"), *(ROOT / "src").rglob("*.py")]
    named = {
        coordinates
        for page in pages
        for coordinates in re.findall(r"org\.apache\.spark:[\w.-]+:[\d.]+", page.read_text(encoding="utf-8"))
    }
    stores = (ROOT / "scripts" / "hadoop-jars").read_text(encoding="utf-8")
    cloud = re.findall(r"SPARK_CLOUD_VERSION:-([\d.]+)\}", stores)[0]
    assert named == {
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",
        f"org.apache.spark:spark-hadoop-cloud_{scala}:{cloud}",
    }
