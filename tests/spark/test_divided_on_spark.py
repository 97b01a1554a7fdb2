"""Large files that several tasks share (`split_bytes`) give the results, and the order of rows, of whole files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline
from windowpane.runtime.golden_spark import finish

pytestmark = pytest.mark.spark
ROWS = 120_000
SQL = "SELECT k, count(*) AS n, sum(v) AS s, first(v) AS f, last(v) AS l FROM %s GROUP BY tumblingwindow('ss', 10), k"


def test_divided_files_give_the_same_results(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"ts": at // 20_000, "k": at % 5, "v": at} for at in range(ROWS)]
    for form in ("json", "parquet"):
        (tmp_path / form).mkdir()
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "json" / "a.json").write_text(
        "\n".join([*lines[:60_000], '{"k": 1', *lines[60_000:]]), encoding="utf-8"
    )
    table, target = pa.Table.from_pylist(rows), tmp_path / "parquet" / "a.parquet"
    pq.write_table(table, target, row_group_size=10_000, compression="none", use_dictionary=False)
    assert all((tmp_path / form / f"a.{form}").stat().st_size > 2 * (1 << 20) for form in ("json", "parquet"))
    streams = {
        f"{form}_{kind}": {
            "format": form, "path": form, "schema": "ts BIGINT, k BIGINT, v BIGINT", "scan": "columnar",
            "eventtime": {"column": "ts", "type": "unixtimestamp_s", "strict": True},
        }
        | ({"split_bytes": 1 << 20} if kind == "divided" else {})
        for form in ("json", "parquet")
        for kind in ("whole", "divided")
    }  # fmt: skip
    sinks = {name: MemorySink(name) for name in streams}
    settings = {
        "streams": streams,
        "options": {
            "trigger": "available_now", "checkpoint": "state", "shards": 1, "eventtime": {"enabled": True},
        },
        "transforms": {name: {"sql": SQL % name, "sink": name} for name in streams},
        "sinks": {name: {"format": "memory"} for name in streams},
    }  # fmt: skip
    job = Pipeline.from_dict(settings, tmp_path, sinks=sinks)
    finish(job.start(spark), drain=True)
    found = {name: sorted(tuple(row) for row in sink.rows) for name, sink in sinks.items()}
    assert found["json_divided"] == found["json_whole"] == found["parquet_divided"] == found["parquet_whole"]
    assert sum(row[1] for row in found["json_divided"]) == ROWS
    ledgers = {plan.transform: job.checkpoint(plan).ledger.last() for plan in job.plans}
    errors = {name: entry.totals["error"] for name, entry in ledgers.items() if entry is not None}
    assert errors == {"json_whole": 1, "json_divided": 1, "parquet_whole": 0, "parquet_divided": 0}
