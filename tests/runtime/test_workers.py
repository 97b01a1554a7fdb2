"""Python workers on this machine: PySpark's archive is taken off their path, everything else stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from windowpane.spark.workers import DAEMON, quick_workers, use_own_interpreter


def _path(python: str, given: str) -> list[str]:
    command = [python, "-c", "import json, sys; print(json.dumps(sys.path))"]
    asked = subprocess.run(command, env={"PYTHONPATH": given}, capture_output=True, text=True, check=True)
    path: list[str] = json.loads(asked.stdout)
    return path


def test_the_archive_is_off_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with quick_workers("local[2]") as settings:
        path = _path(os.environ["PYSPARK_PYTHON"], "/a/pyspark.zip:/with space/own:/a/py4j-0.10.9.9-src.zip:/b.zip")
        assert settings == DAEMON
    assert [part for part in path if "/a/" in part or part in ("/with space/own", "/b.zip")] == [
        "/with space/own",
        "/b.zip",
    ]
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(("master", "told"), [("spark://elsewhere:7077", None), ("local[2]", "/usr/bin/python3.9")])
def test_not_on_other_machines_nor_against_what_the_user_says(
    monkeypatch: pytest.MonkeyPatch, master: str, told: str | None
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if told is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", told)
    with quick_workers(master) as settings:
        assert (settings, os.environ["PYSPARK_PYTHON"]) == ({}, told or sys.executable)


@pytest.mark.parametrize(
    ("master", "told", "used"),
    [("local[2]", None, sys.executable), ("local[2]", "mine", "python3"), ("yarn", None, "python3")],
)
def test_a_users_session_runs_the_drivers_interpreter(
    monkeypatch: pytest.MonkeyPatch, master: str, told: str | None, used: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if told is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", told)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec="python3"))
    use_own_interpreter(session)
    assert session.sparkContext.pythonExec == used
