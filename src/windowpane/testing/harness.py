"""Harness: a windowed query run in milliseconds, without a JVM.

Parsing, planning and operators are the product's own. Only expressions are evaluated by DuckDB instead of Spark.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from windowpane.core import side_records
from windowpane.core.accounting import Accounting
from windowpane.core.operators.intake import Intake
from windowpane.core.operators.watermark import follow_time
from windowpane.core.runner import BatchResult, Runner
from windowpane.core.state import EntryMap
from windowpane.errors import ConfigError, StateError, nearest
from windowpane.plan.adoption import Adopted, adopted_shape
from windowpane.plan.build import Plan
from windowpane.plan.changes import Change, closed_until_us, compare
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.operators import build_graph
from windowpane.plan.shape import shape_of
from windowpane.testing.decode import RowsLike, decode
from windowpane.testing.expressions import Expressions
from windowpane.testing.inputs import InputEvaluator, Pushed
from windowpane.testing.outputs import OutputEvaluator, as_datetime, as_python
from windowpane.testing.planning import PlannedQuery, QuerySettings, Settings, plan_test_query
from windowpane.testing.snapshots import Remembered, pack_snapshot, unpack_snapshot
from windowpane.time import from_datetime, to_datetime


@dataclass(frozen=True)
class Step:
    """What one micro-batch gave."""

    rows: list[dict[str, object]] = field(default_factory=list)
    """Results, as Spark would return them."""
    side: list[dict[str, object]] = field(default_factory=list)
    """Rows that reached no result, as ADR-0001 records."""
    watermark: dt.datetime | None = None
    accounting: Accounting = field(default_factory=Accounting)
    """Of the rows that were read."""
    stages: Mapping[str, Accounting] = field(default_factory=dict)
    """Of windows over the results of others, by name: `window_2`, `window_3` …"""
    table: pa.Table | None = None
    """The results in Arrow; None when there are none."""


class Harness:
    """Runs one query. Every call is one micro-batch; all of it is deterministic but for the clock's start.

    `options` and `transform` take the keys of pipeline.toml's `[options]` and `[transforms.NAME]`, `streams` those of
    `[streams.NAME]`; dotted keys mean nested ones. `tables` are static: `{"schema": …, "rows": [...]}`.
    `transforms` are those that the query reads by name, with the keys of `[transforms.NAME]`. With
    `watermark="manual"` only `advance_watermark` moves it. `now` is the processing time to start with; without it, it
    is the machine's. It moves by `advance_clock`, and by the `at` of a push.
    """

    def __init__(
        self,
        sql: str,
        *,
        streams: Mapping[str, Settings],
        options: Settings | None = None,
        transform: Settings | None = None,
        watermark: str = "data",
        tables: Mapping[str, Settings] | None = None,
        transforms: Mapping[str, Settings] | None = None,
        now: dt.datetime | int | None = None,
        eventtime_types: EventtimeTypes = EVENTTIME_TYPES,
    ) -> None:
        if watermark not in ("data", "manual"):
            raise ConfigError("BAD_CHOICE", f'watermark="{watermark}" is not known', 'valid: "data", "manual"')
        settings = QuerySettings(streams, options or {}, transform or {}, tables or {}, transforms or {})
        planned = plan_test_query(sql, settings, eventtime_types)
        self._take(planned, settings, now, data_driven=watermark == "data")
        self._types = eventtime_types

    @classmethod
    def of_plan(cls, planned: PlannedQuery, now: dt.datetime | int | None = None) -> Harness:
        """A harness that runs a query that is planned already, such as one of a pipeline. It cannot be changed."""
        made = cls.__new__(cls)
        made._take(planned, QuerySettings({}), now, data_driven=True)  # noqa: SLF001 — of the same class
        return made

    def _take(
        self, planned: PlannedQuery, settings: QuerySettings, now: dt.datetime | int | None, *, data_driven: bool
    ) -> None:
        self._data_driven, self._now, self._settings = data_driven, now, settings
        self._types = planned.plan.types
        self._adopted: Adopted | None = None
        self.plan, self._columns, self._rows_of_tables = planned.plan, planned.columns, planned.tables
        self._tables = dict(planned.table_columns)
        self._input, self._streams = self.plan.stages.input.name, list(self.plan.stages.input.streams)
        self._schema: pa.Schema | None = None
        self._expressions = Expressions()
        """Has no state of the query: what starts again need not compile its expressions again."""
        for name, table in self._rows_of_tables.items():
            self._expressions.register(name, table)
        self._start()

    def _start(self, snapshot: bytes | None = None) -> None:
        self._clock_us = int(time.time() * 1_000_000) if self._now is None else _us(self._now)
        self._arrivals = 0
        self._finished = False
        self.watermark_us: int | None = None
        """The watermark after the last micro-batch."""
        self._entries = EntryMap({})
        stages = self.plan.stages
        self._inputs = InputEvaluator(stages.input, self.plan.types, self._expressions)
        self._outputs = OutputEvaluator(stages.result, self.plan.plan_id, self._expressions)
        if self._schema is None:
            self._schema = self._inputs.schema(self._pushed([], self._streams[0], "0"))
        self._runner = Runner(build_graph(stages, {self._input: self._schema}, data_driven=self._data_driven))
        if snapshot is not None:
            self._load(*unpack_snapshot(snapshot, self.plan.plan_id))

    def again(self, snapshot: bytes | None = None) -> Harness:
        """The same query from its beginning, or from where `snapshot` was taken. It is not planned again."""
        other = copy(self)
        other._start(snapshot)  # noqa: SLF001 — of the same class
        return other

    def change(self, sql: str, *, transform: Settings | None = None, options: Settings | None = None) -> Change:
        """Go on with another query, as `windowpane run --evolve` does. StateError if that cannot take over the state.

        `transform` and `options` take the place of those that were given, if they are.
        """
        settings = self._settings.having(transform, options)
        old, new = shape_of(self.plan), shape_of(plan_test_query(sql, settings, self._types).plan)
        change = compare(old, new)
        if not change.goes_on:
            raise StateError("STATE_OTHER_QUERY", f"the state cannot be taken over: {change.words}")
        if old.late_rules != new.late_rules:
            # Here the operator that judges rows is among those with state; on Spark, it is before the shuffle.
            raise StateError("STATE_OTHER_QUERY", "a change of `late_rule` is not supported in the harness")
        names = adopted_shape(new, old)
        closed = [us for us in (self._closed_until_us, closed_until_us(old, new, self.watermark_us)) if us is not None]
        adopted = Adopted(
            names.keys, names.aggregates, names.carried, self.plan.plan_id, closed_until_us=max(closed, default=None)
        )
        snapshot = self.snapshot()
        self.plan, self._settings = plan_test_query(sql, settings, self._types, adopted).plan, settings
        self._adopted, self._schema = adopted, None
        self._start(snapshot)
        return change

    def go_on(self, plan: Plan) -> None:
        """Go on with a plan that has the same state as the one before."""
        snapshot = self.snapshot()
        self.plan = plan
        self._start(snapshot)

    def follow(self, other: Harness) -> None:
        """Take over how far time has come in another query over the same streams, before the first row."""
        follow_time(self._runner.graph, other._runner.graph)
        self._clock_us, self._arrivals = other._clock_us, other._arrivals

    @property
    def finished(self) -> bool:
        """Whether the query has ended gracefully."""
        return self._finished

    def push(
        self, rows: RowsLike, stream: str | None = None, shard: int | str = 0, *, at: dt.datetime | int | None = None
    ) -> Step:
        """One micro-batch of rows of one shard. `stream` may be left out when the query has only one.

        `at` is the micro-batch's timestamp: processing time moves there with these rows, and stays.
        """
        if at is not None:
            self._move_clock(_us(at))
        return self.push_together([(rows, stream, shard)])

    def push_together(self, parts: Sequence[tuple[RowsLike, str | None, int | str]]) -> Step:
        """One micro-batch of rows of several shards: rows, stream and shard of each."""
        batches = []
        for rows, stream, shard in parts:
            batches.append(self._inputs.rows(self._pushed(rows, self._stream(stream), str(shard))))
            self._arrivals += batches[-1].num_rows
        return self._step(self._open_runner().run_batch(self._clock_us, {self._input: batches}))

    def replace_table(self, name: str, rows: RowsLike) -> None:
        """Give a static table other rows from the next micro-batch on, as `refresh` does."""
        by_name = {known.lower(): known for known in self._tables}
        if name.lower() not in by_name:
            hint = f"it joins: {nearest(name, self._tables)}"
            raise ConfigError("UNKNOWN_TABLE", f"the query joins no table `{name}`", hint)
        known = by_name[name.lower()]
        self._expressions.register(known, decode(rows, self._tables[known]).table)

    def advance_watermark(self, when: dt.datetime | int) -> Step:
        """Move the watermark to an instant (datetime, or microseconds since the epoch). It never moves back."""
        return self._step(self._open_runner().run_batch(self._clock_us, {}, advance_to_us=_us(when)))

    def advance_clock(self, seconds: float) -> Step:
        """Let processing time pass: idle shards, processing-time windows, EMIT EVERY."""
        self._move_clock(self._clock_us + round(seconds * 1_000_000))
        return self._step(self._open_runner().run_batch(self._clock_us, {}))

    def end(self) -> Step:
        """Graceful end: buffered rows are released, every open window and pending lookahead is emitted."""
        step = self._step(self._open_runner().end(self._clock_us))
        self._finished = True
        return step

    def _move_clock(self, to_us: int) -> None:
        if to_us < self._clock_us:
            raise ConfigError("CLOCK_BACK", f"processing time cannot go back from {self.clock} to {to_datetime(to_us)}")
        self._clock_us = to_us

    @property
    def clock(self) -> dt.datetime:
        """Processing time now."""
        return to_datetime(self._clock_us)

    @property
    def time_sources(self) -> dict[str, int]:
        """How many rows got their event time from where."""
        return dict(self._inputs.time_sources)

    @property
    def counts(self) -> dict[str, int]:
        """What is counted beside the accounting: where rows got their time from, and how many lie too far ahead."""
        future = [each.future_rows for each in self._runner.graph.operators if isinstance(each, Intake)]
        return {f"time_{origin}": number for origin, number in self.time_sources.items()} | {"future_rows": sum(future)}

    def snapshot(self) -> bytes:
        """Everything the query remembers, in one blob: the state entries that Spark would store, and more."""
        self._runner.graph.save(self._entries)
        remembered = Remembered(
            self.plan.plan_id,
            self._clock_us,
            arrivals=self._arrivals,
            finished=self._finished,
            time_sources=dict(self._inputs.time_sources),
        )
        return pack_snapshot(remembered, self._entries.merged())

    @classmethod
    def restore(cls, data: bytes, sql: str, **arguments: object) -> Harness:
        """A harness that goes on where `snapshot` was taken. The query and arguments must be the same."""
        return cls(sql, **arguments).again(data)  # type: ignore[arg-type]  # the arguments of __init__, passed on

    def _load(self, remembered: Remembered, entries: Mapping[str, bytes]) -> None:
        self._clock_us, self._arrivals = remembered.clock_us, remembered.arrivals
        self._finished = remembered.finished
        self._inputs.time_sources.update(remembered.time_sources)
        self._entries = EntryMap(entries)
        self._runner.graph.load(self._entries)
        self.watermark_us = self._runner.graph.source_watermark_us

    @property
    def _closed_until_us(self) -> int | None:
        return None if self._adopted is None else self._adopted.closed_until_us

    def _open_runner(self) -> Runner:
        if self._finished:
            raise StateError("FINISHED", "this query has ended gracefully and accepts no more rows", "start a new one")
        return self._runner

    def _stream(self, stream: str | None) -> str:
        if stream is None and len(self._streams) == 1:
            return self._streams[0]
        by_name = {name.lower(): name for name in self._streams}
        if stream is None or stream.lower() not in by_name:
            raise ConfigError(
                "UNKNOWN_STREAM",
                f"the query reads no stream `{stream}`",
                f"it reads: {nearest(stream or '', self._streams)}",
            )
        return by_name[stream.lower()]

    def _pushed(self, rows: RowsLike, stream: str, shard: str) -> Pushed:
        decoded = decode(rows, self._columns[stream])
        return Pushed(
            stream, f"{stream}/{shard}", decoded=decoded, clock_us=self._clock_us, first_arrival=self._arrivals
        )

    def _step(self, result: BatchResult) -> Step:
        whole, side_batches = None, list(result.side)
        emitted = list(chain.from_iterable(result.emissions.values()))
        if emitted:
            whole, errors = self._outputs.results(pa.concat_batches(emitted), result.watermark_us)
            side_batches += errors
        records = [
            record
            for batch in side_batches
            for record in side_records.to_records(batch, self.plan.plan_id, self.plan.transform)
        ]
        self.watermark_us = result.watermark_us
        return Step(
            as_python(whole) if whole is not None else [],
            records,
            watermark=None if result.watermark_us is None else as_datetime(result.watermark_us),
            accounting=result.accounts.get("", Accounting()),
            stages={name: account for name, account in result.accounts.items() if name},
            table=whole,
        )


def _us(when: dt.datetime | int) -> int:
    return from_datetime(when) if isinstance(when, dt.datetime) else when
