"""The merge stage, which transformWithState runs once per shard: merges partials, moves time and closes windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from windowpane.core.accounting import Accounting
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Emissions, Frame, SideRows, Watermark
from windowpane.core.numbering import Numbers, Portion, numbered
from windowpane.core.operators.base import Holding
from windowpane.core.state import EntryMap
from windowpane.core.wire import FoldedRows, pack_frames
from windowpane.spark.entries import StoredEntries
from windowpane.spark.overflow import Outlet, in_payloads
from windowpane.spark.piece_cache import worker_cache
from windowpane.spark.shard_report import ShardReport
from windowpane.spark.stages import Stages
from windowpane.spark.timings import MERGE, STATE_CALLS, timed

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

OUTPUT = "shard int, kind string, payload binary"
REPORT, RESULTS, SIDE = "report", "results", "side"
STATE, STATE_KEY, STATE_VALUE = "operators", "entry string", "blob binary"


class MergeStage(StatefulProcessor):
    """State: a map of Arrow blobs per shard, named by operator and entry."""

    def __init__(self, stages: Stages, cache_bytes: int) -> None:
        """`cache_bytes`: how much of the state each executor caches on its disk."""
        self._stages, self._cache_bytes = stages, cache_bytes

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(STATE, STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        packed = sorted(((row["origin"], bytes(row["payload"])) for row in rows), key=lambda pair: pair[0])
        spent: Counter[str] = Counter()
        with timed(spent, STATE_CALLS):
            stored = StoredEntries(self._state, spent, worker_cache(self._cache_bytes))
            entries = EntryMap(stored, stored.size_of)
        with timed(spent, MERGE):
            shard = Shard(self._stages, entries)
            shard.take([payload for _, payload in packed])
        with timed(spent, STATE_CALLS):
            stored.write(entries.changes)
        outputs = shard.outputs(spent)
        for kind, payload in outputs:
            yield Row(shard=key[0], kind=kind, payload=payload)


class Shard:
    """The merge operators of one shard for one micro-batch, with the state of the previous one."""

    def __init__(self, stages: Stages, entries: EntryMap) -> None:
        self._graph = stages.merge()
        (self._entry,) = self._graph.entries
        self._result_columns, self._arrival_states = stages.result_columns, stages.arrival_states
        self._entries = entries
        self._graph.load(entries)
        self._outlet, self._results, self._side = Outlet(stages.overflow), 0, Counter[str]()
        self._counts, self._clock_us, self._tallies = Accounting(), 0, Counter[str]()

    def run(self, payloads: Iterable[bytes]) -> list[tuple[str, bytes]]:
        """One micro-batch: `take`, then `outputs`."""
        self.take(payloads)
        return self.outputs()

    def take(self, payloads: Iterable[bytes]) -> None:
        """Process the messages of the fold stage."""
        frames, self._counts, self._clock_us, self._tallies = self._unpacked(payloads)
        self._finish([*frames, BatchEnd()])

    def end(self, clock_us: int) -> list[tuple[str, bytes]]:
        """Graceful end: everything open is emitted."""
        self._clock_us = clock_us
        self._finish([Clock(clock_us), ControlSignal.END])
        return self.outputs()

    def outputs(self, spent: Mapping[str, int] = MappingProxyType({})) -> list[tuple[str, bytes]]:
        """The report, results and side rows. `spent`: more tallies."""
        report = ShardReport.of(
            self._graph, self._clock_us, state_bytes=self._entries.size(), side=self._side, results=self._results,
            tallies={**self._tallies, **spent},
        )  # fmt: skip
        return [(REPORT, report.pack(self._counts)), *self._outlet.rows()]

    def holdings(self) -> list[tuple[str, Holding]]:
        """What the operators keep, each with the operator's name."""
        return [(type(operator).__name__, held) for operator in self._graph.operators for held in operator.holdings()]

    def _unpacked(self, payloads: Iterable[bytes]) -> tuple[list[Frame], Accounting, int, Counter[str]]:
        sent, numbers = list[Portion](), Numbers.onwards(0)
        folded, clock_us, tallies = Accounting(), 0, Counter[str]()
        for each in map(FoldedRows.unpack, payloads):
            sent += each.portions
            numbers = each.numbers or numbers
            folded = folded + each.counts
            clock_us = max(clock_us, each.clock_us)
            tallies.update(each.tallies)
        before = self._graph.watermark_before(self._entry)
        beginning: list[Frame] = [Clock(clock_us), *([] if before is None else [Watermark(before)])]
        return beginning + numbered(sent, numbers, self._arrival_states), folded, clock_us, tallies

    def _finish(self, frames: list[Frame]) -> None:
        for given in self._graph.flow(self._entry, frames):
            self._put(given.frame)
        self._counts = sum(self._graph.take_counts().values(), self._counts)
        self._graph.save(self._entries)

    def _put(self, frame: Frame) -> None:
        """Pack a frame as soon as it is given, so that not all results of a large window are in memory."""
        match frame:
            case Emissions():
                self._results += frame.batch.num_rows
                for batch in in_payloads(self._crossing(frame).batch):
                    self._outlet.put(RESULTS, pack_frames([Emissions(batch)], Accounting()))
            case SideRows():
                for kind in frame.batch.column("kind").value_counts().to_pylist():
                    self._side[kind["values"]] += kind["counts"]
                for batch in in_payloads(frame.batch):
                    self._outlet.put(SIDE, pack_frames([SideRows(batch)], Accounting()))

    def _crossing(self, frame: Emissions) -> Emissions:
        """Without the columns that nothing behind the merge stage uses."""
        return frame if self._result_columns is None else Emissions(frame.batch.select(list(self._result_columns)))
