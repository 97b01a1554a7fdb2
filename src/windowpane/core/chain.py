"""A chain of operators run as micro-batches: the smallest host of the core, where the accounting is checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Emissions, Frame, Rows, SideRows, Watermark
from windowpane.core.operators.base import Operator, through
from windowpane.core.state import EntryMap


@dataclass(frozen=True)
class BatchResult:
    """What one micro-batch gave."""

    emissions: list[pa.RecordBatch] = field(default_factory=list)
    side: list[pa.RecordBatch] = field(default_factory=list)
    watermark_us: int | None = None
    accounting: Accounting = field(default_factory=Accounting)


class Chain:
    """Operators in a row: what one gives, the next takes."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators = list(operators)

    def run_batch(
        self, clock_us: int, rows: Iterable[pa.RecordBatch] = (), *, advance_to_us: int | None = None
    ) -> BatchResult:
        """One micro-batch: rows first, then time moves, once."""
        frames = [*self._beginning(clock_us), *(Rows(batch) for batch in rows)]
        if advance_to_us is not None:
            frames.append(Watermark(advance_to_us))
        return self._run([*frames, BatchEnd()])

    def end(self, clock_us: int) -> BatchResult:
        """Graceful end: everything held or open is emitted."""
        return self._run([*self._beginning(clock_us), ControlSignal.END])

    def _beginning(self, clock_us: int) -> list[Frame]:
        """Rows are judged against the watermark as it was before the micro-batch."""
        return [Clock(clock_us), *([] if self.watermark_us is None else [Watermark(self.watermark_us)])]

    @property
    def watermark_us(self) -> int | None:
        """Where time stands: the last operator has heard of every advance."""
        return self.operators[-1].watermark_us

    def _run(self, frames: list[Frame]) -> BatchResult:
        buffered_before = self._buffered()
        return self._result(through(self.operators, frames), buffered_before)

    def _result(self, out: list[Frame], buffered_before: int) -> BatchResult:
        accounting = sum((operator.counts for operator in self.operators), Accounting())
        accounting.buffered = self._buffered()
        accounting.check(buffered_before)
        for operator in self.operators:
            operator.counts = Accounting()
        return BatchResult(
            [frame.batch for frame in out if isinstance(frame, Emissions) and frame.batch.num_rows],
            [frame.batch for frame in out if isinstance(frame, SideRows) and frame.batch.num_rows],
            self.watermark_us,
            accounting,
        )

    def _buffered(self) -> int:
        return sum(operator.buffered() for operator in self.operators)

    def save(self, entries: EntryMap) -> None:
        """Write the state that has changed since `load` or the last `save`, as every host does after a micro-batch."""
        for number, operator in enumerate(self.operators):
            operator.save(entries.of_operator(number))

    def load(self, entries: EntryMap) -> None:
        """Take up the state that a chain of the same operators saved."""
        for number, operator in enumerate(self.operators):
            operator.load(entries.of_operator(number))
