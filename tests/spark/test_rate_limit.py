"""A side channel takes no more than its limit; what it drops is counted, and the main output has every row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark


def test_what_is_beyond_the_limit_is_dropped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"ts": "nonsense" if number % 2 else "2024-01-01T00:00:01Z"} for number in range(40)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    stream = {
        "format": "json",
        "path": "in",
        "schema": "ts STRING",
        "eventtime": {"column": "ts", "type": "iso8601", "strict": True},
    }
    transform = {
        "sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)",
        "sink": "out",
        "side_output": {"error": {"sink": "dlq", "rate_limit": 5}},
    }
    settings = {
        "streams": {"s": stream},
        "options": {"eventtime": {"enabled": True}, "trigger": "available_now", "shards": 2},
        "transforms": {"t": transform},
        "sinks": {"out": {"format": "memory"}, "dlq": {"format": "memory"}},
    }
    out, dlq = MemorySink("out"), MemorySink("dlq")
    running = Pipeline.from_dict(settings, tmp_path, sinks={"out": out, "dlq": dlq}).start(spark)
    running.wait()
    first = running.transforms[0].checkpoint.ledger.read(0)
    running.drain()
    assert [row["n"] for row in out.rows] == [20]
    assert len(dlq.rows) == 5
    assert first is not None
    assert (first.side, first.dropped) == ({"error": 20}, {"error": 15})
