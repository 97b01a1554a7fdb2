"""A query as a job on real Spark, and the same query in the harness: one file per micro-batch, one push per file."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline, RunningPipeline
from windowpane.runtime.golden_spark import finish as finish  # noqa: PLC0414  # tests take it from here
from windowpane.testing import Harness

Rows = Sequence[Mapping[str, Any]]
EVENT_TIME = {"column": "ts", "type": "unixtimestamp_ms", "strict": True}
KINDS = ("late", "error", "evicted", "duplicate", "unmatched")
FIRST_FILE_TIME = 1_700_000_000
"""Spark takes files in the order of their modification times: these are set, one second apart."""


@dataclass(frozen=True)
class Query:
    """What harness and Spark both need to know. `schemas` by stream; each stream's event time is `ts` in ms."""

    sql: str
    schemas: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    transform: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timed: bool = True

    @property
    def all_options(self) -> dict[str, Any]:
        timing = {"eventtime.enabled": True, "max_future_skew": "off"} if self.timed else {}
        return {**timing, **self.options}

    def stream(self, name: str) -> dict[str, Any]:
        return {"schema": self.schemas[name]} | ({"eventtime": EVENT_TIME} if self.timed else {})

    def harness(self, now: dt.datetime | None = None) -> Harness:
        streams = {name: self.stream(name) for name in self.schemas}
        options = {name: value for name, value in self.all_options.items() if name != "trigger"}
        return Harness(
            self.sql, streams=streams, options=options, transform=dict(self.transform), tables=self.tables, now=now
        )


@dataclass
class Outcome:
    """Per micro-batch: results, side records, and what the ledger says."""

    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    side: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        return [row for batch in sorted(self.rows) for row in self.rows[batch]]

    @property
    def all_side(self) -> list[dict[str, Any]]:
        return [record for batch in sorted(self.side) for record in self.side[batch]]


class Job:
    """A pipeline in a folder of its own. `feed` writes what becomes one micro-batch."""

    def __init__(self, folder: Path, query: Query, *, shards: int = 2, source_format: str = "json") -> None:
        self.folder, self.query, self.shards, self._format = folder, query, shards, source_format
        self.fed = 0
        self.results, self.dlq = MemorySink("results"), MemorySink("dlq")
        for name in query.schemas:
            self._data(name).mkdir(parents=True, exist_ok=True)
        for name, table in query.tables.items():
            write_json(self.folder / "tables" / name / "all.json", table["rows"])

    def _data(self, stream: str) -> Path:
        return self.folder / "data" / stream

    def feed(self, rows: Rows, stream: str | None = None) -> None:
        """One file; for the query's other streams an empty one, so that they keep step."""
        chosen = stream or next(iter(self.query.schemas))
        for name in self.query.schemas:
            path = self._data(name) / f"{self.fed:06}.json"
            write_json(path, rows if name == chosen else [])
            os.utime(path, (FIRST_FILE_TIME + self.fed,) * 2)
        self.fed += 1

    def feed_all(self, batches: Iterable[Rows]) -> Job:
        for rows in batches:
            self.feed(rows)
        return self

    def settings(self) -> dict[str, Any]:
        query = self.query
        streams = {
            name: query.stream(name)
            | {"format": self._format, "path": f"data/{name}", "options": {"maxFilesPerTrigger": 1}, "scan": "spark"}
            for name in query.schemas
        }
        routes = {kind: {"sink": "dlq", "include_original": True} for kind in KINDS}
        transform = {"sql": query.sql, "sink": "results", "side_output": routes, **query.transform}
        tables = {
            name: {"schema": table["schema"], "format": "json", "path": f"tables/{name}"}
            for name, table in query.tables.items()
        }
        return {
            "streams": streams,
            "tables": tables,
            "options": {"trigger": "available_now", "checkpoint": "state", "shards": self.shards, **query.all_options},
            "transforms": {"q": transform},
            "sinks": {"results": {"format": "memory"}, "dlq": {"format": "memory"}},
        }

    def pipeline(self) -> Pipeline:
        given = {"results": self.results, "dlq": self.dlq}
        return Pipeline.from_dict(self.settings(), self.folder, sinks=given)

    def start(self, spark: SparkSession) -> RunningPipeline:
        return self.pipeline().start(spark)

    def run(self, spark: SparkSession, *, drain: bool = False) -> Outcome:
        finish(self.start(spark), drain=drain)
        return self.outcome()

    def outcome(self) -> Outcome:
        ledger = self.pipeline().checkpoint(self.pipeline().plans[0]).ledger
        entries = [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
        rows: dict[int, list[dict[str, Any]]] = {}
        side: dict[int, list[dict[str, Any]]] = {}
        for (batch, _), got in self.results._batches.items():  # versions of a query each write a batch
            rows.setdefault(batch, []).extend(_plain(row.asDict(recursive=True)) for row in got)
        for (batch, _), got in self.dlq._batches.items():
            side.setdefault(batch, []).extend(json.loads(row[0]) for row in got)
        return Outcome(rows, side, entries)


def run_together(spark: SparkSession, jobs: Sequence[Job], *, drain: bool = False, at_once: int = 2) -> list[Outcome]:
    """Several jobs at a time in one session: most of a small micro-batch is waiting."""
    for low in range(0, len(jobs), at_once):
        running = [job.start(spark) for job in jobs[low : low + at_once]]
        for each in running:
            finish(each, drain=drain)
    return [job.outcome() for job in jobs]


def in_harness(query: Query, batches: Iterable[Rows | tuple[str, Rows]], *, drain: bool = False) -> Outcome:
    """The same micro-batches without Spark."""
    harness, outcome = query.harness(), Outcome()
    steps = []
    for batch in batches:
        stream, rows = batch if isinstance(batch, tuple) else (None, batch)
        steps.append(harness.push(rows, stream))
    steps += [harness.end()] if drain else []
    for number, step in enumerate(steps):
        if step.rows:
            outcome.rows[number] = [_plain(row) for row in step.rows]
        if step.side:
            outcome.side[number] = list(step.side)
    return outcome


def assert_same(got: Outcome, wanted: Outcome) -> None:
    """Equal micro-batch by micro-batch, in any order within one. A window must come out in the batch that closed it."""
    assert {batch: counted(rows) for batch, rows in got.rows.items() if rows} == {
        batch: counted(rows) for batch, rows in wanted.rows.items()
    }
    assert {batch: counted(map(_timeless, rows)) for batch, rows in got.side.items() if rows} == {
        batch: counted(map(_timeless, rows)) for batch, rows in wanted.side.items()
    }


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows as a multiset that compares."""
    return Counter(json.dumps(_comparable(row), sort_keys=True) for row in rows)


def _timeless(record: Mapping[str, Any]) -> dict[str, Any]:
    """A side record without the machine's clock, and without what only one of the two says in its own words."""
    kept = {
        name: value for name, value in record.items() if name not in ("processing_time", "error_detail", "transform")
    }
    event = kept.get("original_event")
    if isinstance(event, Mapping):
        kept["original_event"] = {name: value for name, value in event.items() if value is not None}
    return kept


def _comparable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _comparable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if isinstance(value, float):
        return str(value) if math.isnan(value) else float(f"{value:.12g}")
    return value if isinstance(value, int | str | None) else str(value)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Instants in UTC; PySpark gives them in the machine's zone, without saying so."""
    return {name: value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value for name, value in row.items()}


def write_json(path: Path, rows: Rows) -> None:
    """A file of JSON lines that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f"_{path.name}"
    draft.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows), encoding="utf-8")
    draft.rename(path)


def with_options(query: Query, **options: Any) -> Query:
    return replace(query, options={**query.options, **options})
