"""The blocks that need Spark: the commands of README and tutorial in new processes, the Python of docs/python.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks_of, chosen
from tests.docs.test_blocks import commands, compare, write_file

# These prepare a machine: the tests run in an environment that `make setup` has made.
PREPARES = ("git clone", "make setup")


@pytest.mark.spark
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_pages_show_what_their_commands_print(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("state", "out"))
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # as in a new clone: all of the same time
    ran = 0
    for block in blocks_of(ROOT / page):
        write_file(block, tmp_path)
        if block not in chosen("console", spark=True):
            continue
        for command, shown in commands(block.body):
            if not command.startswith(PREPARES):
                compare(shown, run(command, tmp_path), command)
                ran += 1
    assert ran > 1


def run(command: str, folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


SESSION = """
from windowpane.config import SparkSettings
from windowpane.spark.session import create_session

spark = create_session(SparkSettings(master="local[2]"))
"""
END = """
for query in spark.streams.active:
    query.processAllAvailable()
    query.stop()
"""


@pytest.mark.spark
def test_python_runs_on_spark(tmp_path: Path) -> None:
    """In a new process: relative paths are those of the folder in which Java was started."""
    shutil.copytree(ROOT / "examples" / "hot_items", tmp_path, dirs_exist_ok=True)
    bodies = [block.body for block in blocks_of(ROOT / "docs" / "python.md") if block.language == "python"]
    code = [f"{SESSION}\n{body}" if "spark.readStream" in body else body for body in bodies]
    (tmp_path / "page.py").write_text("\n".join([*code, END]), encoding="utf-8")
    run("python page.py", tmp_path)
