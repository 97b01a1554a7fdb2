"""`windowpane preview`: the queries of a pipeline over a sample of their streams, without Spark."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from windowpane.config import PipelineConfig
from windowpane.core.accounting import Accounting
from windowpane.errors import ConfigError, SqlError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_transforms, source_schema
from windowpane.plan.scan_sources import is_recursive
from windowpane.preview.source_format import schema_of_files
from windowpane.preview.stream_sample import StreamSample, sample_stream, sample_table, stream_files
from windowpane.scan.files import folders_of_path
from windowpane.sql.query import Column
from windowpane.testing.decode import Decoded
from windowpane.testing.harness import Harness, Step
from windowpane.testing.planning import PlannedQuery

MICRO_BATCHES = 10
"""How many micro-batches a sample is divided into, so that the watermark advances and rows can be late."""
Part = tuple[Decoded, str, str]
"""Rows, stream and source partition."""


@dataclass
class Previewed:
    """What a query gave for a sample."""

    transform: str
    rows: dict[str, int]
    """How many rows of each stream were read."""
    whole: bool
    """The sample is all that the streams have now."""
    results: list[pa.Table] = field(default_factory=list)
    open_results: list[pa.Table] = field(default_factory=list)
    """Of windows that the sample leaves open. They were emitted because the sample ends."""
    side: list[dict[str, object]] = field(default_factory=list)
    accounting: Accounting = field(default_factory=Accounting)
    stages: dict[str, Accounting] = field(default_factory=dict)
    watermark: dt.datetime | None = None
    """Before the windows that were left open were emitted."""
    time_sources: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def take(self, step: Step, *, at_end: bool) -> None:
        """Add what a micro-batch gave."""
        if step.table is not None and step.table.num_rows:
            (self.open_results if at_end else self.results).append(step.table)
        self.side += step.side
        self.accounting = _after(self.accounting, step.accounting)
        self.stages |= {
            name: _after(self.stages.get(name, Accounting()), account) for name, account in step.stages.items()
        }
        if not at_end:
            self.watermark = step.watermark


def _after(before: Accounting, more: Accounting) -> Accounting:
    """What is counted is added; rows that are buffered are those of the newest micro-batch."""
    return replace(before + more, buffered=more.buffered)


def preview(config: PipelineConfig, only: str | None, rows: int) -> list[Previewed]:
    """Run all transforms that have a sink, or the one called `only`, each over at most about `rows` rows a stream."""
    declare_schemas(config)
    plans = plan_transforms(config, only)
    chosen = [plan for plan in plans if only is not None or config.transforms[plan.transform].sinks]
    sampler = Sampler(config, rows)
    return [_previewed(config, plan, sampler) for plan in chosen]


def declare_schemas(config: PipelineConfig) -> set[str]:
    """Give streams and tables of files that have a schema, but declare none, the schema of their files; their names."""
    found = set()
    for sources in (config.streams, config.tables):
        for name, source in sources.items():
            known = source.source_format
            if source.schema_ is None and known.sampled and not known.untyped:
                of_path = folders_of_path(source.path or "", recursive=is_recursive(source))
                ddl = schema_of_files(known.name, stream_files(config, source), of_path)
                sources[name] = source.model_copy(update={"schema_": ddl})  # type: ignore[assignment]  # of its kind
                found.add(name)
    return found


def streams_of(plan: Plan) -> tuple[str, ...]:
    """The streams that a query reads, each once."""
    return tuple(dict.fromkeys(plan.stages.input.streams))


class Sampler:
    """Samples streams, each once for all transforms that read the same columns of it."""

    def __init__(self, config: PipelineConfig, rows: int) -> None:
        self._config, self._rows = config, rows
        self._taken: dict[tuple[str, tuple[Column, ...] | None], StreamSample] = {}

    def streams_of(self, plan: Plan) -> dict[str, StreamSample]:
        """A sample of each stream that a query reads."""
        used: dict[str, tuple[Column, ...]] = {}
        for scan in plan.scan.streams if plan.scan is not None else ():
            if not self._config.streams[scan.stream].source_format.is_messages:
                used[scan.stream] = tuple(dict.fromkeys((*used.get(scan.stream, ()), *scan.columns)))
        return {name: self._sample(name, used.get(name)) for name in streams_of(plan)}

    def _sample(self, name: str, used: tuple[Column, ...] | None) -> StreamSample:
        if (name, used) not in self._taken:
            self._taken[name, used] = sample_stream(self._config, name, self._rows, used=used)
        return self._taken[name, used]


def harness_of(config: PipelineConfig, plan: Plan) -> Harness:
    """The query as it runs without Spark. ConfigError or SqlError if only Spark can run it."""
    columns = {}
    for name in streams_of(plan):
        schema = source_schema(config.streams[name])
        if schema is None:
            what = f"stream `{name}` declares no schema, and only Spark can find it"
            raise config.error("NEEDS_SPARK", what, "declare its `schema`", key=f"streams.{name}")
        columns[name] = schema
    joined = dict.fromkeys(join.table for join in plan.query.source.relation.tables)
    tables = {name: sample_table(config, name) for name in joined}
    declared = {name: source_schema(config.tables[name]) or () for name in joined}
    return Harness.of_plan(PlannedQuery(plan, columns, tables, declared))


def _previewed(config: PipelineConfig, plan: Plan, sampler: Sampler) -> Previewed:
    started = time.monotonic()
    samples = sampler.streams_of(plan)
    found = Previewed(
        plan.transform,
        {name: sample.count for name, sample in samples.items()},
        whole=all(sample.whole for sample in samples.values()),
        notes=tuple(f"{name}: {note}" for name, sample in samples.items() for note in sample.notes),
    )
    try:
        harness = harness_of(config, plan)
        for batch in micro_batches(samples):
            found.take(harness.push_together(batch), at_end=False)
        found.take(harness.end(), at_end=True)
    except (SqlError, ConfigError) as refused:
        if refused.code == "UNSUPPORTED_IN_HARNESS":
            what = f"transform `{plan.transform}` cannot be previewed without Spark: {refused.message}"
            hint = "run it on Spark, with a checkpoint of its own: windowpane run --drain --checkpoint trial"
            raise config.error("NEEDS_SPARK", what, hint, key=f"transforms.{plan.transform}") from refused
        raise
    found.time_sources, found.seconds = harness.time_sources, time.monotonic() - started
    return found


def micro_batches(samples: Mapping[str, StreamSample], count: int = MICRO_BATCHES) -> list[Sequence[Part]]:
    """The rows of all streams and partitions, divided into micro-batches that have a part of each."""
    whole = [(_joined(parts), stream, name) for stream, sample in samples.items() for name, parts in _by_name(sample)]
    batches: list[Sequence[Part]] = []
    for number in range(count):
        parts = []
        for rows, stream, name in whole:
            start, end = (rows.table.num_rows * at // count for at in (number, number + 1))
            if end > start:
                parts.append((rows.slice(start, end - start), stream, name))
        if parts:
            batches.append(parts)
    return batches


def _by_name(sample: StreamSample) -> list[tuple[str, list[Decoded]]]:
    found: dict[str, list[Decoded]] = {}
    for part in sample.parts:
        found.setdefault(part.partition, []).append(part.rows)
    return list(found.items())


def _joined(parts: Sequence[Decoded]) -> Decoded:
    stamps = [part.stamps for part in parts if part.stamps is not None]
    return Decoded(
        pa.concat_tables([part.table for part in parts]),
        pa.concat_arrays([part.events.cast(pa.string()) for part in parts]),
        [problem for part in parts for problem in part.problems],
        pa.concat_arrays(stamps) if stamps else None,
    )
