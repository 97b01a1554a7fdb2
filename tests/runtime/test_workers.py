"""Python workers on this machine: PySpark's archive is taken off their path, everything else stays."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windowpane.config import parse_pipeline
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.fold_stage import FoldStage
from windowpane.spark.job_inputs import worker_scan
from windowpane.spark.job_stages import JobStages
from windowpane.spark.merge_stage import MergeStage
from windowpane.spark.splitting import split_stages
from windowpane.spark.workers import DAEMON, use_own_interpreter, worker_python


def _path(python: str, given: str) -> list[str]:
    command = [python, "-c", "import json, sys; print(json.dumps(sys.path))"]
    asked = subprocess.run(command, env={"PYTHONPATH": given}, capture_output=True, text=True, check=True)
    path: list[str] = json.loads(asked.stdout)
    return path


def test_the_archive_is_off_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with worker_python({"spark.master": "local[2]"}, is_sent=False) as settings:
        path = _path(os.environ["PYSPARK_PYTHON"], "/a/pyspark.zip:/with space/own:/a/py4j-0.10.9.9-src.zip:/b.zip")
        assert settings == DAEMON
    assert [part for part in path if "/a/" in part or part in ("/with space/own", "/b.zip")] == [
        "/with space/own",
        "/b.zip",
    ]
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize(
    ("master", "environment", "setting", "python"),
    [
        ("spark://elsewhere:7077", None, None, sys.executable),
        ("local[2]", "/usr/bin/python3.9", None, "/usr/bin/python3.9"),
        ("yarn", None, "/usr/bin/python3.12", "/usr/bin/python3.12"),
        ("yarn", "mine", "/usr/bin/python3.12", "mine"),
    ],
)
def test_not_on_other_machines_nor_against_what_the_user_says(
    monkeypatch: pytest.MonkeyPatch, master: str, environment: str | None, setting: str | None, python: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    config = {"spark.master": master} | ({} if setting is None else {"spark.pyspark.python": setting})
    with worker_python(config, is_sent=False) as settings:
        assert (settings, os.environ["PYSPARK_PYTHON"]) == ({}, python)
    assert os.environ.get("PYSPARK_PYTHON") == environment


def test_workers_run_what_is_sent_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with worker_python({"spark.master": "yarn"}, is_sent=True) as settings:
        assert (settings, os.environ["PYSPARK_PYTHON"]) == (DAEMON, "./windowpane/bin/python3")


@pytest.mark.parametrize(
    ("master", "chosen", "used"),
    [("local[2]", None, sys.executable), ("local[2]", "mine", "python3"), ("yarn", None, "python3")],
)
def test_a_users_session_runs_the_drivers_interpreter(
    monkeypatch: pytest.MonkeyPatch, master: str, chosen: str | None, used: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec="python3"))
    use_own_interpreter(session)
    assert session.sparkContext.pythonExec == used


PLANNER = ("windowpane.plan", "windowpane.sql", "windowpane.config", "sqlglot", "pydantic", "typer")
STREAMS = {
    "files": {
        "format": "json", "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT",
        "eventtime": {"column": "ts", "type": "unixtimestamp_ms"},
    },
    "topic": {
        "format": "kafka", "schema": "ts BIGINT, k STRING, v BIGINT",
        "options": {"kafka.bootstrap.servers": "h:1", "subscribe": "t"},
        "eventtime": {"column": "ts", "type": "unixtimestamp_ms"},
    },
}  # fmt: skip


@pytest.mark.slow
def test_workers_import_no_planner(tmp_path: Path) -> None:
    """What tasks receive, unpickled in another process: it must not import what only the driver needs."""
    sql = "SELECT k, sum(v + 1) AS s, first(v) AS a FROM {} WHERE v > 0 GROUP BY k, tumblingwindow('ss', 10)"
    pipeline = {
        "streams": STREAMS,
        "options": {"eventtime.enabled": True},
        "transforms": {f"of_{name}": {"sql": sql.format(name), "sink": "out"} for name in STREAMS},
        "sinks": {"out": {"format": "console"}},
    }
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps([_stages(plan) for plan in plan_pipeline(parse_pipeline(pipeline, tmp_path))]))
    script = (
        "import pickle, sys, windowpane.spark.ticking\n"
        "from windowpane.evaluation import duckdb_tables\n"
        f"for fold, _ in pickle.load(open({str(sent)!r}, 'rb')):\n"
        "    stages, scan = fold.job.members[''], fold.scan.scans['']\n"
        "    stages.fold(), stages.graph(1), scan.schema\n"
        f"print([name for name in {PLANNER} if name in sys.modules])"
    )
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert asked.stdout == "[]\n", asked.stderr


def _stages(plan: Plan) -> tuple[FoldStage, MergeStage]:
    assert plan.scan is not None
    scan = worker_scan(plan.scan.streams[0])
    stages, _ = split_stages(plan, scan.schema, shards=1, feedback=True)
    job = JobStages.alone(stages)
    return FoldStage(job, (0,), SharedScan.alone(scan)), MergeStage(job, 1, (0,), 0)
