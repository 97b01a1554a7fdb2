"""`windowpane.sql`: a result that cannot be computed is a record of the side output, beside the side rows.

The query has two stateful stages: dedupe compares another column than the groups.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import windowpane
from tests.spark.jobs import write_json

pytestmark = pytest.mark.spark

QUERY = "SELECT k, 12 / min(v) AS i, window_start FROM s GROUP BY tumblingwindow('ss', 10), k HAVING max(v) < 100"
ROWS: list[dict[str, Any]] = [
    {"ts": 1000, "k": "good", "v": 3},
    {"ts": 1000, "k": "bad", "v": 0},
    {"ts": 1000, "k": "dropped", "v": 100},
    {"ts": 1000, "k": "again", "v": 3},
    {"ts": "never", "k": "unread", "v": 1},
    {"ts": 30_000, "k": "open", "v": 1},
]


def collected(frame: DataFrame, name: str, folder: Path) -> list[Any]:
    written = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder / name))
    written.trigger(availableNow=True).start().awaitTermination()
    return frame.sparkSession.table(name).collect()


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_result_that_fails_is_a_side_record(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.ansi.enabled", ansi)
    write_json(tmp_path / "in" / "a.json", ROWS)
    stream = session.readStream.schema("ts STRING, k STRING, v INT").json(str(tmp_path / "in"))
    timed = stream.selectExpr("try_cast(ts AS BIGINT) AS ts", "k", "v")
    found = windowpane.sql(
        session,
        QUERY,
        {"s": {"frame": timed, "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True}}},
        options={"eventtime": {"enabled": True}},
        transform={"dedupe": {"key": ["v"], "within": "1s"}},
    )
    assert [(row["k"], row["i"]) for row in collected(found, f"results_{ansi}", tmp_path)] == [("good", 4.0)]
    records = [json.loads(row["value"]) for row in collected(found.side_output, f"aside_{ansi}", tmp_path)]
    by_reason = {record["reason"]: record for record in records}
    assert sorted(by_reason) == ["division_by_zero", "duplicate_key", "event_time_null"]
    failed = by_reason["division_by_zero"]
    assert (failed["kind"], failed["group_key"], failed["transform"]) == ("error", {"k": "bad"}, "query")
    assert failed["window"] == {"start": "1970-01-01T00:00:00.000000Z", "end": "1970-01-01T00:00:10.000000Z"}
    assert set(failed) == set(by_reason["event_time_null"])
    assert failed["processing_time"].endswith("Z")
