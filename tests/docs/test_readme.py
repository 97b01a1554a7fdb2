"""The README's commands on real Spark, in a copy of the repository without what earlier runs left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, chosen
from tests.docs.test_blocks import commands, compare

# These set up a machine; the tests run in an environment that they have made.
SETS_UP = ("git clone", "make setup")


@pytest.mark.spark
def test_the_readme_shows_what_its_commands_print(tmp_path: Path) -> None:
    (block,) = [block for block in chosen("console", spark=True) if block.page == "README.md"]
    listed = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
        os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))  # as a clone has them: all of one moment
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, shown in commands(block.body):
        if command.startswith(SETS_UP):
            continue
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        compare(shown, ran.stdout, command)
