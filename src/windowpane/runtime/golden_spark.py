"""Golden files on real Spark: each push is one file and one micro-batch, `end` drains the pipeline."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.errors import ConfigError, InternalError, WindowpaneError
from windowpane.outcomes import SIDE_KINDS
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.running import RunningPipeline
from windowpane.spark.session import create_session
from windowpane.temporary import temporary
from windowpane.testing.golden.comparison import Difference, compare
from windowpane.testing.golden.model import Golden, Step
from windowpane.testing.golden.rows import to_inputs
from windowpane.testing.golden.run import Got, Run

_FIRST_FILE_TIME = 1_700_000_000
"""Spark reads files in order of their modification times, so these are set one second apart."""
_TRANSFORM = "golden"


class _BatchSink(Sink):
    """Keeps rows by micro-batch."""

    delivery = "exactly_once"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.batches: dict[int, list[dict[str, Any]]] = defaultdict(list)

    def write(self, batch: SinkBatch) -> None:
        self.batches[batch.batch_id] += [row.asDict(recursive=True) for row in batch.frame.collect()]


@contextmanager
def golden_session() -> Iterator[SparkSession]:
    """A local Spark session for golden files; its own output goes to a file that is removed."""
    with temporary("golden") as folder:
        spark = create_session(SparkSettings(master="local[2]"), log=folder / "spark.log")
        try:
            yield spark
        finally:
            spark.stop()


def differences_on_spark(golden: Golden, spark: SparkSession) -> list[Difference]:
    """Run a file on Spark and compare it as the harness does."""
    return compare(golden, run_on_spark(golden, spark))


def run_on_spark(golden: Golden, spark: SparkSession) -> Run:
    """Run a file to its end. ConfigError for steps that need a clock or a watermark set by hand."""
    _refuse_steps(golden)
    with temporary("golden") as folder:
        results, side = _BatchSink("results"), _BatchSink("side")
        try:
            sinks: dict[str, Sink] = {"results": results, "side": side}
            job = Pipeline.from_dict(_settings(golden), folder, transform=_TRANSFORM, sinks=sinks)
            entries = _run(golden, job, spark, folder)
        except InternalError:
            raise
        except WindowpaneError as error:
            return Run(refused=error)
    return Run(steps=list(_steps(golden, entries, results, side)))


def _refuse_steps(golden: Golden) -> None:
    for step in golden.steps:
        by_hand = step.verb not in ("push", "end", "restart") or step.at_us is not None or step.shard != "0"
        if by_hand or golden.manual or golden.now_us:
            message = f"`{golden.file}`: {step.describe()} needs a clock or a watermark that is set by hand"
            hint = "Spark runs push, restart and end; leave out --spark for the rest"
            raise ConfigError("UNSUPPORTED_ON_SPARK", message, hint, file=golden.file, line=step.place.first)


def _settings(golden: Golden) -> dict[str, Any]:
    files = {"format": "json", "options": {"maxFilesPerTrigger": 1}}
    streams = {
        name: {**declared.settings, **files, "path": f"data/{name}"} for name, declared in golden.streams.items()
    }
    tables = {
        name: {"schema": table["schema"], "format": "json", "path": f"tables/{name}"}
        for name, table in golden.tables.items()
    }
    routes = {kind: {"sink": "side", "include_original": True} for kind in SIDE_KINDS}
    transform = {name: value for name, value in golden.transform.items() if name != "sql_file"}
    transform |= {"sql": golden.sql, "sink": "results", "side_output": routes}
    return {
        "streams": streams,
        "tables": tables,
        "options": {**golden.options, "trigger": "available_now", "checkpoint": "state", "shards": 2},
        "transforms": {_TRANSFORM: transform, **golden.transforms},
        "sinks": {"results": {"format": "memory"}, "side": {"format": "memory"}},
    }


def _write_tables(golden: Golden, folder: Path) -> None:
    for name, table in golden.tables.items():
        rows = table["rows"]
        _write(folder / "tables" / name / "rows.json", rows if isinstance(rows, Sequence) else ())
    for name in golden.streams:
        (folder / "data" / name).mkdir(parents=True)


def _write_push(golden: Golden, folder: Path, step: Step, number: int) -> None:
    """One file; an empty one for the other streams, so that they keep step."""
    chosen = step.stream or next(iter(golden.streams))
    for name, declared in golden.streams.items():
        rows = to_inputs(step.rows, declared.columns, golden.eventtime(name)) if name == chosen else []
        path = folder / "data" / name / f"{number:06}.json"
        _write(path, rows)
        os.utime(path, (_FIRST_FILE_TIME + number,) * 2)


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(dict(row), default=str) + "\n" for row in rows), encoding="utf-8")


def _run(golden: Golden, job: Pipeline, spark: SparkSession, folder: Path) -> dict[int, Entry]:
    """Run up to each `restart`, stop, and go on; what each micro-batch left in the ledger."""
    _write_tables(golden, folder)
    number = 0
    for index, step in enumerate(golden.steps):
        if step.verb == "push":
            _write_push(golden, folder, step, number)
            number += 1
        if step.verb in ("restart", "end") or index == len(golden.steps) - 1:
            finish(job.start(spark), drain=step.verb == "end")
    ledger = job.checkpoint(job.plans[0]).ledger
    return {batch: entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None}


def finish(running: RunningPipeline, *, drain: bool) -> None:
    """Wait until all input is processed. A failed query raises its error, and the checkpoint is free again."""
    try:
        running.wait()
    except BaseException:
        running.stop()
        raise
    if drain:
        running.drain()
    else:
        running.stop()


def _steps(golden: Golden, entries: Mapping[int, Entry], results: _BatchSink, side: _BatchSink) -> Iterator[Got]:
    batch = 0
    for step in golden.steps:
        if step.verb == "restart":
            yield Got()
            continue
        yield _got(step, entries.get(batch), results.batches[batch], side.batches[batch])
        batch += 1


def _got(step: Step, entry: Entry | None, rows: list[dict[str, Any]], side: list[dict[str, Any]]) -> Got:
    if entry is None:
        return Got(error=ConfigError("NO_MICRO_BATCH", f"Spark ran no micro-batch for the {step.describe()}"))
    sums = entry.sums.get("times", {})
    return Got(
        rows=[{name: _plain(value) for name, value in row.items()} for row in rows],
        side=[json.loads(next(iter(row.values()))) for row in side],
        watermark_us=entry.watermark_us,
        accounting={
            name: number
            for stage, counts in {"": entry.accounting, **entry.stages}.items()
            for name, number in Accounting(**counts).named(stage).items()
        },
        counts={f"time_{name}": number for name, number in sums.items()}
        | {"future_rows": entry.sums.get("rows", {}).get("future_rows", 0)},
    )


def _plain(value: Any) -> Any:
    """Instants in UTC: PySpark gives them in the machine's zone, without saying so."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
