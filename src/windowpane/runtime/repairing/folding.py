"""Folds rows into the accumulators of closed windows, and computes the corrected results. Spark is not needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.checkpoint.closed_windows import ClosedWindows
from windowpane.checkpoint.repairs import Repairs
from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import Emissions
from windowpane.core.groups import group_rows
from windowpane.core.matching import matches
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.core.operators.results import emit
from windowpane.core.rows import int64s, select, take
from windowpane.errors import ConfigError, InternalError
from windowpane.plan.operators import build_graph
from windowpane.runtime.asking.asked import Asked, shown
from windowpane.runtime.asking.input_rows import InputRows, chosen_stream
from windowpane.runtime.repairing.candidates import Candidate
from windowpane.runtime.repairing.judging import Reasons, evaluated, judged_input, marked, parted

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Folded:
    """What a repair changes."""

    taken: list[Candidate]
    refused: list[Candidate]
    states: pa.Table
    """The corrected accumulators, as `ClosedStates` has them."""
    emissions: pa.Table
    """The corrected results, as operators emit them."""
    changes: list[dict[str, Any]]
    """For people: each corrected window and group with its aggregates before and after, HAVING aside."""
    windows: int


def nothing_folded(refused: list[Candidate]) -> Folded:
    """No row can be taken."""
    return Folded([], refused, pa.table({}), pa.table({}), [], 0)


class Folding:
    """The operators of a transform, over the windows that it has kept."""

    def __init__(self, asked: Asked, stream: str | None = None) -> None:
        """`stream`: that of the rows, if the transform reads several."""
        self._asked = asked
        if asked.plan.keep_closed_us is None:
            raise ConfigError(
                "NO_CLOSED_WINDOWS", f"transform `{asked.name}` keeps no closed windows, so nothing can be repaired",
                'set keep_closed = "7d" on it: windows that close from then on are kept',
                key=f"transforms.{asked.name}.keep_closed",
            )  # fmt: skip
        self._keep_us = asked.plan.keep_closed_us
        self._reader = InputRows(asked, chosen_stream(asked, stream))
        schema = self._reader.of_dicts([]).schema
        graph = build_graph(asked.plan.stages, {asked.plan.stages.input.name: schema})
        merging = next((each for each in graph.operators if isinstance(each, MergeAggregation)), None)
        if merging is None:
            raise InternalError("REPAIR", "the plan has no operator that merges accumulators")
        self._merging, self._aggregator = merging, merging.aggregator
        last = asked.last
        self._merging.clock_us = last.clock_us if last else 0
        self._merging.watermark_us = last.watermark_us if last else None
        self._names = [c.WINDOW_KEY, *self._aggregator.keys]

    def fold(self, candidates: Sequence[Candidate], closed: ClosedWindows, repairs: Repairs) -> Folded:
        """Judge each row, fold those that can be taken, and compute their windows again."""
        refused = [each for each in candidates if each.refused is not None]
        given = [each for each in candidates if each.refused is None]
        given, rows = evaluated(self._asked, given, self._reader)
        reasons = self._reasons(rows, closed)
        taken, more = parted(given, reasons)
        kept = np.flatnonzero([why is None for why in reasons])
        return self._corrected(taken, [*refused, *more], take(rows, kept), closed, repairs)

    def _reasons(self, rows: pa.RecordBatch, closed: ClosedWindows) -> Reasons:
        """For each row, why it cannot be repaired."""
        windows, ts = self._merging.plan.windows, int64s(rows, c.EVENT_TIME)
        reasons: Reasons = [None] * rows.num_rows
        positions, keys = windows.open_for(ts)
        ends, since_us = windows.bounds(keys)[1], closed.since_us()
        unkept = {int(end): self._unkept(int(end), since_us) for end in np.unique(ends)}
        bad = np.isin(ends, [end for end, why in unkept.items() if why is not None])
        for at, end in zip(positions[bad].tolist(), ends[bad].tolist(), strict=True):
            reasons[at] = reasons[at] or unkept[end]
        if windows.has_gaps:
            reasons = marked(reasons, windows.in_gap(ts), "no window contains it")
        return judged_input(rows, reasons)

    def _unkept(self, end_us: int, since_us: int | None) -> str | None:
        asked = self._asked
        if not asked.finished and not asked.is_closed(end_us):
            return f"its window up to {shown(end_us)} is still open: windowpane replay sends it there"
        if since_us is not None and asked.closing_us(end_us) <= since_us:
            return f"its window up to {shown(end_us)} closed before windows were kept"
        if asked.watermark_us is not None and end_us < asked.watermark_us - self._keep_us:
            return f"its window up to {shown(end_us)} has expired (keep_closed)"
        return None

    def _corrected(
        self, taken: list[Candidate], refused: list[Candidate], rows: pa.RecordBatch, closed: ClosedWindows,
        repairs: Repairs,
    ) -> Folded:  # fmt: skip
        plan = self._merging.plan
        positions, keys = plan.windows.open_for(int64s(rows, c.EVENT_TIME))
        fresh = self._aggregator.fold(take(rows, positions), {c.WINDOW_KEY: keys})
        states = self._kept(np.unique(keys), closed, repairs)
        own = states.select(self._aggregator.state_schema([c.WINDOW_KEY]).names)
        merged = self._aggregator.merge([own, fresh], [c.WINDOW_KEY])
        changed = select(merged, matches(merged, fresh, self._names) >= 0)
        found = matches(changed, states, self._names)
        epochs = np.where(found >= 0, int64s(states, c.EPOCH)[found] if states.num_rows else 0, 0) + 1
        old = take(states, found[found >= 0])
        before = self._emitted(old.select(own.schema.names), int64s(old, c.EPOCH))
        emissions = self._emitted(changed, epochs)
        ends = plan.windows.bounds(int64s(changed, c.WINDOW_KEY))[1]
        kept = changed.append_column(c.WINDOW_END, pa.array(ends)).append_column(c.EPOCH, pa.array(epochs))
        return Folded(
            taken, refused, pa.Table.from_batches([kept]), pa.Table.from_batches([emissions]),
            self._changes(before, emissions), len(np.unique(keys)),
        )  # fmt: skip

    def _kept(self, keys: Int64s, closed: ClosedWindows, repairs: Repairs) -> pa.RecordBatch:
        """The accumulators of windows as they are now: of several of one group, the last ones."""
        schema = self._aggregator.state_schema([c.WINDOW_KEY])
        schema = schema.append(pa.field(c.WINDOW_END, pa.int64())).append(pa.field(c.EPOCH, pa.int64()))
        wanted = pa.array(keys)
        parts = [pa.Table.from_batches([empty_batch(schema)])]
        for table in _tables(closed, repairs):
            chosen = table.filter(pc.is_in(table.column(c.WINDOW_KEY), value_set=wanted))
            parts.append(chosen.select(schema.names).cast(schema))
        whole = pa.concat_tables(parts).combine_chunks()
        batch = whole.to_batches()[0] if whole.num_rows else empty_batch(schema)
        groups, _ = group_rows([batch.column(name) for name in self._names], batch.num_rows)
        last = np.zeros(groups.count, np.int64)
        np.maximum.at(last, groups.ids, np.arange(batch.num_rows))
        return take(batch, last)

    def _emitted(self, states: pa.RecordBatch, epochs: Int64s) -> pa.RecordBatch:
        plan = self._merging.plan
        start, end = plan.windows.bounds(int64s(states, c.WINDOW_KEY))
        frames = emit(
            self._merging, self._aggregator, states, plan.keys, start=start, end=end, epochs=epochs, final=True
        )
        return next(frame.batch for frame in frames if isinstance(frame, Emissions))

    def _changes(self, before: pa.RecordBatch, after: pa.RecordBatch) -> list[dict[str, Any]]:
        keys = {key.name: key.label for key in self._merging.plan.keys}
        found = matches(after, before, [c.WINDOW_START, c.WINDOW_END, *keys])
        names = self._labels(after.schema.names)
        old, changes = before.to_pylist(), []
        for row, at in zip(after.to_pylist(), found.tolist(), strict=True):
            known = old[at] if at >= 0 else None
            changes.append({
                "window_start_us": row[c.WINDOW_START], "window_end_us": row[c.WINDOW_END], "emit_epoch": row[c.EPOCH],
                "group": {label: row[name] for name, label in keys.items()},
                "before": None if known is None else {label: known[name] for name, label in names.items()},
                "after": {label: row[name] for name, label in names.items()},
            })  # fmt: skip
        return changes

    def _labels(self, emitted: Sequence[str]) -> dict[str, str]:
        """What the query calls its aggregates."""
        outputs = self._asked.plan.stages.result.outputs
        known = {output.expr.text: output.name for output in reversed(outputs)}
        others = (c.WINDOW_START, c.WINDOW_END, c.EPOCH, c.FINAL, *self._aggregator.keys)
        calls = [name for name in emitted if name not in others]
        words = {output.name: set(re.findall(r"\w+", output.expr.text)) for output in outputs}
        within = {name: next((output for output, found in words.items() if name in found), None) for name in calls}
        return {name: known.get(name) or self._described(name, within[name]) for name in calls}

    def _described(self, call: str, output: str | None) -> str:
        """An aggregate that is part of a computed column: `avg in mean`."""
        told = self._aggregator.describe(call)
        return told if output is None else f"{told.partition('(')[0]} in {output}"


def _tables(closed: ClosedWindows, repairs: Repairs) -> Iterator[pa.Table]:
    yield from closed.read()
    for record in repairs.all():
        yield repairs.states(record.number)
