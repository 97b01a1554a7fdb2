"""The columnar scan of a UNION ALL and of joins of streams gives the rows that the harness gives, stream by stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windowpane.config import parse_pipeline
from windowpane.core import columns as c
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.spark.job_inputs import worker_scan
from windowpane.sql import parse_schema
from windowpane.testing.decode import decode
from windowpane.testing.expressions import Expressions
from windowpane.testing.inputs import InputEvaluator, Pushed

CLOCK_US = 1_700_000_000_000_000
SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, ok BOOLEAN, ms BIGINT"
STRICT = {"column": "ts", "type": "timestamp", "strict": True}
LENIENT = {"column": "ms", "type": "unixtimestamp_ms"}
ROWS = pa.table(
    {
        "ts": pa.array([1_000_000, None, -5, 2_000_000, 3_000_000, None], pa.timestamp("us", "UTC")),
        "k": ["1", "ä", None, "x", "2", None],
        "v": [1, 2, None, 2**63 - 1, 0, -7],
        "ok": [True, None, False, True, True, False],
        "ms": [1, None, -3, 4, None, 6],
    }
)
UNION = (
    "SELECT k, sum(w) AS w, count(*) FILTER (WHERE one) AS n FROM (SELECT k, v + 1 AS w, TRUE AS one, ts FROM s "
    "WHERE ok UNION ALL SELECT upper(k), 7, CAST(NULL AS BOOLEAN), ts FROM t) AS u WHERE k <> 'ä' "
    "GROUP BY tumblingwindow('ss', 5), k"
)
QUERIES = {
    "union": UNION,
    "the same stream twice": UNION.replace("FROM t)", "FROM s)"),
    "window join": "SELECT s.k, s.v * 2 AS w, t.v, CAST(t.k AS INT) AS i FROM s FULL JOIN t ON s.k = t.k AND s.ok "
    "WHERE s.v > t.v WINDOW TUMBLING (SIZE 5 SECONDS)",
    "joined with itself": "SELECT a.k, b.v + 1 AS w FROM s AS a JOIN s AS b ON a.k = b.k AND a.ok "
    "WINDOW TUMBLING (SIZE 5 SECONDS)",
    "results joined": "SELECT s.k, s.v, r.n FROM s JOIN (SELECT k, sum(v) AS n FROM t WHERE v > 0 "
    "GROUP BY k, tumblingwindow('ss', 5)) AS r ON s.k = r.k WINDOW TUMBLING (SIZE 5 SECONDS)",
    "interval join": "SELECT s.v, concat(t.k, 'x') AS x FROM s JOIN t ON s.k = t.k AND t.ok AND s.v <> 0 "
    "AND t.ts BETWEEN s.ts - INTERVAL 1 SECOND AND s.ts + INTERVAL 1 SECOND",
}


def planned(sql: str, times: dict[str, Any], **settings: object) -> Plan:
    streams = {
        name: {"format": "parquet", "path": "data", "schema": SCHEMA, "eventtime": time, **settings}
        for name, time in times.items()
    }
    document: dict[str, Any] = {
        "streams": streams,
        "options": {"eventtime": {"enabled": True}},
        "transforms": {"q": {"sql": sql, "sink": "out"}},
        "sinks": {"out": {"format": "console"}},
    }
    (plan,) = plan_pipeline(parse_pipeline(document))
    return plan


def by_harness(plan: Plan, stream: str) -> pa.RecordBatch:
    evaluator = InputEvaluator(plan.stages.input, plan.types, Expressions())
    decoded = decode(ROWS, parse_schema(SCHEMA))
    return evaluator.rows(Pushed(stream, f"{stream}/0", decoded, CLOCK_US, 0))


@pytest.mark.parametrize(
    ("name", "other"), [*((name, STRICT) for name in QUERIES), ("union", LENIENT), ("window join", LENIENT)]
)
def test_rows_are_those_of_the_harness(tmp_path: Path, name: str, other: dict[str, Any]) -> None:
    plan = planned(QUERIES[name], {"s": STRICT, "t": other})
    assert plan.scan is not None
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    listing = pa.RecordBatch.from_pydict({
        "path": [str(tmp_path / "rows.parquet")], "modificationTime": pa.array([0], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    partitions = set()
    for part in plan.scan.streams:
        partitions.add(f"{part.partitions_of}/0")
        for scanned in worker_scan(part).read(iter([listing]), CLOCK_US):
            found.setdefault(part.stream, []).extend(scanned.rows.to_pylist())
    assert set(found) == set(plan.stages.input.streams)
    pushed = [by_harness(plan, stream).column(c.SOURCE_PARTITION).unique().to_pylist() for stream in found]
    assert partitions == {name for names in pushed for name in names}
    names = [column.name for column in plan.stages.input.columns]
    for stream, rows in found.items():
        for row, wanted in zip(rows, by_harness(plan, stream).to_pylist(), strict=True):
            time = CLOCK_US if row[c.EVENT_TIME] is None and other is LENIENT and stream == "t" else row[c.EVENT_TIME]
            assert (time, row.get(c.ERROR), row.get(c.DETAIL)) == (
                wanted[c.EVENT_TIME],
                wanted[c.ERROR],
                wanted[c.DETAIL],
            )
            assert row.get(c.KEEP, True) == wanted[c.KEEP]
            assert [row[each] for each in names] == [wanted[each] for each in names]


def test_one_stream_that_spark_has_to_read_decides_for_all() -> None:
    both = "(SELECT k, ts FROM s UNION ALL SELECT k, ts FROM t) AS u"
    sql = f"SELECT count(*) AS n FROM {both} GROUP BY tumblingwindow('ss', 5)"
    text = {"column": "k", "type": "iso8601"}
    assert planned(sql, {"s": text, "t": STRICT}).scan is not None
    dated = {"column": "k", "type": "unixtimestamp_s"}
    plan = planned(sql, {"s": STRICT, "t": dated})
    assert plan.scan is None
    reason = "is read by Spark, not by the columnar scan: event time is k: unixtimestamp_s of STRING"
    assert plan.notes == (f"s {reason}", f"t {reason}")
    with pytest.raises(PlanError, match="stream `s` is set to the columnar scan: event time is k"):
        planned(sql, {"s": STRICT, "t": dated}, scan="columnar")
