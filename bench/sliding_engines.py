"""The engines of the sliding benchmark: the same aggregates before every event, in the spelling of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.discard import Discard
from bench.nexmark import settings
from bench.nexmark.flink_tables import SETTINGS
from bench.nexmark.on_flink import run_flink
from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.sinks import Sink
from windowpane.plan.build import Plan
from windowpane.plan.logical import LogicalSink
from windowpane.plan.lower import lower
from windowpane.plan.optimizer.share_inputs import share_inputs
from windowpane.plan.staging import stages_of
from windowpane.runtime import Pipeline

KEYS, PER_SECOND = 1_000, 20_000
SCHEMA = "auction BIGINT, price BIGINT, ts TIMESTAMP"
CALLS = {"n": "count(*)", "total": "sum(price)", "top": "max(price)"}
LAG_S = 2


def _events(rows: int) -> pa.Table:
    """Bids out of order by less than the lag."""
    random = np.random.default_rng(7)
    at_ms = 1_700_000_000_000 + np.arange(rows) * 1000 // PER_SECOND + random.integers(0, 1000 * LAG_S, rows)
    columns = {
        "auction": random.integers(0, KEYS, rows),
        "price": random.integers(0, 10_000, rows),
        "ts": pa.array(at_ms * 1000, pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


@dataclass(frozen=True)
class Load:
    """So many events in files, some of the files in each micro-batch, and windows over the last `seconds`."""

    data: Path
    rows: int
    file_rows: int
    seconds: int
    files: int = 1

    def write(self) -> Load:
        self.data.mkdir(parents=True, exist_ok=True)
        events = _events(self.rows)
        for first in range(0, self.rows, self.file_rows):
            pq.write_table(events.slice(first, self.file_rows), self.data / f"{first:09}.parquet")
        return self

    def write_for_readers(self) -> Load:
        """A file for each of two readers, every other event in each: both come forward in time together."""
        self.data.mkdir(parents=True, exist_ok=True)
        events = _events(self.rows)
        for reader in range(2):
            pq.write_table(events.take(np.arange(reader, self.rows, 2)), self.data / f"{reader}.parquet")
        return self

    def settings(self, checkpoint: Path) -> dict[str, Any]:
        over = f"slidingwindow('ss', {self.seconds}) OVER (PARTITION BY auction)"
        calls = ", ".join(f"{call} AS {name}" for name, call in CALLS.items())
        stream = settings.file_stream(str(self.data), SCHEMA, files=self.files)
        return settings.pipeline(
            f"SELECT auction, trigger_time, {calls} FROM bids GROUP BY {over}", {"bids": stream}, lag=f"{LAG_S}s",
            checkpoint=str(checkpoint), trigger="available_now", shards=2,
        )  # fmt: skip


def pipeline(load: Load, checkpoint: Path, sink: Sink, *, fused: bool) -> Pipeline:
    planned = Pipeline.from_dict(load.settings(checkpoint), sinks={"out": sink})
    plans = planned.plans if fused else tuple(_unfused(plan) for plan in planned.plans)
    assert all(plan.stages.window.fused is fused for plan in plans)
    return replace(planned, plans=plans)


def _unfused(plan: Plan) -> Plan:
    """The same plan without the rule that fuses window and aggregation."""
    assert isinstance(plan.optimized, LogicalSink)
    physical = share_inputs(lower(plan.optimized, plan.timing, plan.query.relation))
    return replace(plan, physical=physical, stages=stages_of(physical, plan.query.relation))


def windowpane_rate(spark: SparkSession, load: Load, scratch: Path, *, fused: bool) -> float:
    """Rows per second from the end of the first micro-batch, in which everything starts, to the end of the last."""
    ends: list[tuple[float, Entry]] = []
    running = pipeline(load, scratch, Discard("out"), fused=fused).start(
        spark, watch=lambda _, entry: ends.append((time.monotonic(), entry))
    )
    running.wait()
    measured = list(ends)
    running.drain()
    results = sum(entry.results for _, entry in ends)
    if results != load.rows:
        sys.exit(f"{results:,} results for {load.rows:,} rows: no time was taken")
    took = [later - sooner for (sooner, _), (later, _) in pairwise(measured)]
    return sum(entry.accounting["in_"] for _, entry in measured[1:]) / sum(took)


def spark_query(spark: SparkSession, load: Load) -> DataFrame:
    frame = f"RANGE BETWEEN INTERVAL {load.seconds} SECONDS PRECEDING AND CURRENT ROW"
    calls = [f"{call} OVER (PARTITION BY auction ORDER BY ts {frame}) AS {name}" for name, call in CALLS.items()]
    return spark.read.schema(SCHEMA).parquet(str(load.data)).selectExpr("auction", "ts AS trigger_time", *calls)


def spark_rate(spark: SparkSession, load: Load) -> float:
    """A batch query over all files, for comparison: no state, no checkpoint, nothing late. The second of two runs."""
    took = 0.0
    for _ in range(2):
        began = time.monotonic()
        spark_query(spark, load).write.format("noop").mode("overwrite").save()
        took = time.monotonic() - began
    return load.rows / took


def flink_rate(python: str, load: Load, scratch: Path) -> float:
    """The rows that a run over all of them had more than one over a third, over the time that it took longer."""
    part = replace(load, data=scratch / "flink-part", rows=load.rows // 3).write_for_readers()
    whole = replace(load, data=scratch / "flink-whole").write_for_readers()
    jobs = {name: list(_flink_job(which)) for name, which in (("warm-up", part), ("whole", whole), ("part", part))}
    took, _peak = run_flink(python, "flink_job.py", {"settings": SETTINGS, "jobs": jobs})
    return (whole.rows - part.rows) / (took["whole"] - took["part"])


def _flink_job(load: Load) -> Iterator[str]:
    columns = SCHEMA.replace("TIMESTAMP", "TIMESTAMP(3)")
    yield "DROP TABLE IF EXISTS bids"
    yield (
        f"CREATE TABLE bids ({columns}, WATERMARK FOR ts AS ts - INTERVAL '{LAG_S}' SECOND) WITH ('connector' = "
        f"'filesystem', 'path' = '{load.data}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )
    yield "DROP TABLE IF EXISTS results"
    yield (
        "CREATE TABLE results (auction BIGINT, trigger_time TIMESTAMP(3), n BIGINT, total BIGINT, top BIGINT) "
        "WITH ('connector' = 'blackhole')"
    )
    over = f"RANGE BETWEEN INTERVAL '{load.seconds}' SECOND PRECEDING AND CURRENT ROW"
    calls = ", ".join(f"{call} OVER w" for call in CALLS.values())
    yield (
        f"INSERT INTO results SELECT auction, ts, {calls} FROM bids "
        f"WINDOW w AS (PARTITION BY auction ORDER BY ts {over})"
    )
