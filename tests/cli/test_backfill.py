"""`windowpane backfill` where it needs no Spark: what it refuses, what it would read, and what it prints."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windowpane.cli import backfill
from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.core.accounting import Accounting
from windowpane.core.time_range import TimeRange
from windowpane.plan.backfill import plan_backfill
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.backfill_check import BackfillCheck, Checked
from windowpane.runtime.backfilling import Backfill, Backfilled, Target
from windowpane.runtime.comparing import Difference
from windowpane.runtime.difference_reasons import Explained

PIPELINE = """
[streams.s]
format = "json"
path = "data"
schema = "ts TIMESTAMP, k STRING"
eventtime.column = "ts"
[streams.r]
format = "rate"
eventtime.column = "timestamp"
[tables.t]
format = "json"
path = "data"
schema = "k STRING, name STRING"
refresh = "1h"
[options]
eventtime.enabled = true
[transforms.a]
sql = "SELECT window_start, k, count(*) AS n FROM s GROUP BY tumblingwindow('mi', 10), k"
sink = "out"
[transforms.sessions]
sql = "SELECT k, count(*) AS n FROM s GROUP BY sessionwindow('ss', 10), k"
sink = "out"
[sinks.out]
format = "memory"
"""
JANUARY = ["--from", "2026-01-01", "--to", "2026-02-01"]


def run(folder: Path, *arguments: str, more: str = "") -> tuple[int, str]:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "pipeline.toml").write_text(PIPELINE + more)
    result = CliRunner().invoke(app, ["backfill", str(folder / "pipeline.toml"), *arguments])
    return result.exit_code, result.output


def test_a_dry_run_says_what_would_be_read(tmp_path: Path) -> None:
    code, output = run(tmp_path, *JANUARY, "--dry-run")
    assert code == 0
    assert output.splitlines() == [
        "Backfill 20260101T000000Z_20260201T000000Z",
        "a: reads rows from 2026-01-01 00:00:00 to 2026-02-01 00:10:00",
        "sessions: reads all rows, because of session windows: a session may have begun any time before",
        "results go to the sinks of the transforms",
    ]
    code, output = run(tmp_path, *JANUARY, "--dry-run", "--json", "--transform", "a", "--into", "out")
    assert json.loads(output)["transforms"] == {
        "a": {"reads": {"from": "2026-01-01T00:00:00.000000Z", "to": "2026-02-01T00:10:00.000000Z"}, "because": []}
    }


@pytest.mark.parametrize(
    ("arguments", "code", "more"),
    [
        (["--from", "2026-02-01", "--to", "2026-01-01"], "BAD_RANGE", ""),
        (["--from", "tomorrow", "--to", "now"], "BAD_INSTANT", ""),
        ([*JANUARY, "--into", "ot"], "UNKNOWN_SINK", ""),
        ([*JANUARY, "--transform", "b"], "UNKNOWN_TRANSFORM", ""),
        ([*JANUARY, "--check", "--into", "out"], "BAD_OPTION", ""),
        ([*JANUARY, "--transform", "x"], "BACKFILL_SOURCE",
         "[transforms.x]\nsql = \"SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10)\"\nsink = 'out'"),
        ([*JANUARY, "--transform", "x"], "BACKFILL_REFRESH",
         ("[transforms.x]\nsink = 'out'\nsql = \"SELECT t.name, count(*) AS n FROM s JOIN t ON s.k = t.k "
         "GROUP BY tumblingwindow('ss', 10), t.name\"")),
        (["--from", "-1d", "--to", "-2h", "--check"], "NO_CHECKPOINT", ""),
    ],
)  # fmt: skip
def test_what_is_refused_before_spark_starts(tmp_path: Path, arguments: list[str], code: str, more: str) -> None:
    exit_code, output = run(tmp_path, *arguments, more=more)
    assert code in output
    assert exit_code in {1, 2}


def test_processing_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE.replace("eventtime.enabled = true", ""))
    result = CliRunner().invoke(app, ["backfill", str(tmp_path / "pipeline.toml"), *JANUARY, "--dry-run"])
    assert "BACKFILL_PROCESSING_TIME" in result.output


@pytest.fixture
def done(tmp_path: Path) -> Backfilled:
    (tmp_path / "data").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    config = load_pipeline(tmp_path / "pipeline.toml")
    planned = plan_backfill(config, plan_pipeline(config, "a")[0], TimeRange(0, 60_000_000))
    account = Accounting(in_=10, aggregated=9, error=1)
    return Backfilled(planned, account, {}, 5, {"processing_time": 2}, 3, 0.5, [Target("out", "here")])


def test_the_account_is_printed_as_a_run_prints_it(done: Backfilled) -> None:
    text = backfill._as_text(done)
    assert "adds up: 10 = 9 + 1" in text
    assert "a: 5 further rows lie outside the range and were skipped" in text
    assert "a: 2 rows have no readable event time" in text
    assert text.endswith("a: 3 results to out (here) in 0.5 s, 30 rows/s")


def difference(number: int) -> Explained:
    key: dict[str, Any] = {"window_start": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "k": None}
    return Explained(Difference("missing", key, key | {"n": number}, None), "late", "the side output has 1 late row")


def test_differences_are_printed_with_their_reasons(done: Backfilled) -> None:
    text = backfill._check_as_text(Checked(done, "out", 30, [difference(number) for number in range(22)]))
    assert "n 0 " in text
    assert "k NULL" in text
    assert "… and 2 more, which --json lists" in text
    assert text.endswith("a: 22 of 30 results differ in sink out: 22 late rows")
    assert "stream = batch, 30 results compared" in backfill._check_as_text(Checked(done, "out", 30, []))
    described = backfill._check_as_dict(Checked(done, "out", 30, [difference(1)]))
    assert json.loads(json.dumps(described))["differences"][0]["batch"]["n"] == 1


def test_the_exit_code_says_whether_stream_and_batch_differ(
    tmp_path: Path, done: Backfilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's part of it is tested in tests/spark/test_backfill.py."""
    found = list[Explained]()
    monkeypatch.setattr(Backfill, "carry_out", lambda _: [done])
    monkeypatch.setattr(BackfillCheck, "carry_out", lambda _: [Checked(done, "out", 3, found)])
    code, output = run(tmp_path, *JANUARY)
    assert code == 0
    assert "adds up: 10 = 9 + 1" in output
    code, output = run(tmp_path, *JANUARY, "--check")
    assert (code, "stream = batch, 3 results" in output) == (0, True)
    found.append(difference(1))
    code, output = run(tmp_path, *JANUARY, "--check", "--json")
    document = json.loads(output[output.index("{") :])
    assert (code, document["same"], document["transforms"]["a"]["reasons"]) == (1, False, {"late": 1})
