"""Runs a graph of operators in one process, micro-batch by micro-batch: the smallest host of the core.

It checks the account of every stage after every micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import (
    BatchEnd,
    Clock,
    ClosedStates,
    ControlSignal,
    Emissions,
    Frame,
    Given,
    Rows,
    SideRows,
    Watermark,
)
from windowpane.core.graph import Graph


@dataclass(frozen=True)
class BatchResult:
    """What one micro-batch gave."""

    emissions: Mapping[str, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    """By the node that they leave."""
    side: Sequence[pa.RecordBatch] = ()
    watermark_us: int | None = None
    """Of the rows that entered."""
    accounts: Mapping[str, Accounting] = field(default_factory=dict)
    """By stage."""
    closed: Sequence[pa.RecordBatch] = ()
    """Accumulators of windows that have closed, if they are kept."""

    @property
    def accounting(self) -> Accounting:
        """The accounts of all stages together."""
        return sum(self.accounts.values(), Accounting())


class Runner:
    """Feeds a graph micro-batch by micro-batch."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run_batch(
        self, clock_us: int, rows: Mapping[str, Iterable[pa.RecordBatch]], *, advance_to_us: int | None = None
    ) -> BatchResult:
        """One micro-batch: rows by the entry of the graph that takes them, then time moves, once.

        `advance_to_us`: an instant up to which the watermarks of all entries are to move.
        """
        asked: list[Frame] = [] if advance_to_us is None else [Watermark(advance_to_us)]
        frames = {name: [*map(Rows, rows.get(name, ())), *asked] for name in self.graph.entries}
        return self._run(clock_us, frames, BatchEnd())

    def end(self, clock_us: int) -> BatchResult:
        """Graceful end: everything buffered or open is emitted."""
        return self._run(clock_us, {}, ControlSignal.END)

    def _run(self, clock_us: int, frames: Mapping[str, Sequence[Frame]], end: Frame) -> BatchResult:
        buffered_before = self.graph.buffered()
        beginnings = {name: self._beginning(name, clock_us) for name in self.graph.entries}
        given: list[Given] = []
        for name, beginning in beginnings.items():
            given += self.graph.feed(name, [*beginning, *frames.get(name, ()), end])
        accounts = self.graph.take_counts()
        for stage, account in accounts.items():
            account.check(buffered_before[stage])
        return _result(given, self.graph.source_watermark_us, accounts)

    def _beginning(self, entry: str, clock_us: int) -> list[Frame]:
        """Rows are judged against the watermark as it was before the micro-batch."""
        before = self.graph.watermark_before(entry)
        return [Clock(clock_us), *([] if before is None else [Watermark(before)])]


def _result(given: Sequence[Given], watermark_us: int | None, accounts: Mapping[str, Accounting]) -> BatchResult:
    emissions: dict[str, list[pa.RecordBatch]] = {}
    for source, frame in given:
        if isinstance(frame, Emissions) and frame.batch.num_rows:
            emissions.setdefault(source, []).append(frame.batch)
    side = [frame.batch for _, frame in given if isinstance(frame, SideRows) and frame.batch.num_rows]
    closed = [frame.batch for _, frame in given if isinstance(frame, ClosedStates)]
    return BatchResult(emissions, side, watermark_us, accounts, closed)
