"""The stages of a query without Spark: fold operators, the wire, a state store of dicts, merge operators.

It replaces the runner of the harness, so that each of its queries also runs cut in two, over any number of shards.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import Clock, Emissions, Frame, Rows, SideRows, Watermark
from windowpane.core.graph import Graph
from windowpane.core.numbering import Numbers, Portion
from windowpane.core.operators.watermark import EventtimeWatermark
from windowpane.core.rows import concat
from windowpane.core.runner import BatchResult
from windowpane.core.state import EntryMap
from windowpane.core.wire import StageMessage, unpack_frames
from windowpane.spark.merge_stage import REPORT, Shard
from windowpane.spark.overflow import OVERFLOW, Overflow, parts_in
from windowpane.spark.reports import Reports
from windowpane.spark.shard_report import ShardReport
from windowpane.spark.shard_state import make_shard
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import SENT, Stages, sent_rows
from windowpane.testing import Harness

Entries = dict[str, bytes]


@dataclass(frozen=True)
class Layout:
    """How a query is cut: shards, tasks of the source, whether tasks know the watermark, and whether it is shuffled
    several times where that spreads it.
    """

    shards: int
    tasks: int = 2
    feedback: bool = True
    spread: bool = True


class AdvancedShard(Shard):
    """A shard that is also told where time stands, for queries whose watermark is not driven by data."""

    advance_to_us: int | None = None

    def _after(self, entry: str) -> list[Frame]:
        advance = [] if self.advance_to_us is None or self._step > 1 else [Watermark(self.advance_to_us)]
        return [*super()._after(entry), *advance]


class StagedRunner:
    """What `Runner` is to the harness. All that lives from one micro-batch to the next is `entries`, as on Spark."""

    def __init__(self, stages: Stages, layout: Layout) -> None:
        self._stages, self._layout = stages, layout
        self.entries: list[list[Entries]] = [[{} for _ in range(layout.shards)] for _ in stages.templates[1:]]
        """Of every step and shard."""
        self.watermark_us: int | None = None
        self._buffered: dict[str, int] = {}
        self._arrivals = 0
        self.graph = Graph([])
        self.reports: list[ShardReport] = []
        """Of the last micro-batch."""

    def run_batch(
        self, clock_us: int, rows: Mapping[str, Iterable[pa.RecordBatch]], *, advance_to_us: int | None = None
    ) -> BatchResult:
        tasks = self._tasks(chain.from_iterable(rows.values()))
        sent = [self._fold(task, part, clock_us) for task, part in enumerate(tasks)]
        self._arrivals += sum(0 if part is None else part.num_rows for part in tasks)

        def take(shard: AdvancedShard, payloads: list[bytes]) -> None:
            shard.advance_to_us = advance_to_us
            shard.take(payloads)

        return self._result(self._steps(sent, take))

    def end(self, clock_us: int) -> BatchResult:
        return self._result(self._steps([], lambda shard, payloads: shard.end(clock_us, payloads)))

    def _steps(
        self, sent: list[list[bytes]], run: Callable[[AdvancedShard, list[bytes]], None]
    ) -> list[tuple[str, bytes]]:
        """The outputs of all stateful stages. `sent`: of every task, a payload per shard."""
        outputs = list[tuple[str, bytes]]()
        for step, shards in enumerate(self.entries, start=1):
            given = list[list[bytes]]()
            for number, entries in enumerate(shards):
                state = EntryMap(entries)
                shard = AdvancedShard(self._stages, state, step)
                run(shard, [payloads[number] for payloads in sent])
                given.append(shard.messages(number))
                outputs += shard.outputs()
                shards[number] = state.merged()
            sent = given
        return outputs

    def _tasks(self, rows: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch | None]:
        """The rows as tasks of the source read them; one task without rows still tells the time."""
        whole = concat(rows)
        if whole is None or not whole.num_rows:
            return [None]
        size = -(-whole.num_rows // self._layout.tasks)
        return [whole.slice(start, size) for start in range(0, whole.num_rows, size)]

    def _fold(self, task: int, rows: pa.RecordBatch | None, clock_us: int) -> list[bytes]:
        frames: list[Frame] = [Clock(clock_us)]
        if self._layout.feedback and self.watermark_us is not None:
            frames.append(Watermark(self.watermark_us))
        portion = Portion(rows=0 if rows is None else rows.num_rows)
        frames += [] if rows is None else [Rows(self._stages.complete_rows(rows, 0))]
        graph = self._stages.fold()
        given = graph.feed(graph.entries[0], frames)
        counts = sum(graph.take_counts().values(), Accounting())
        home = task % self._layout.shards
        portion.frames = [each for each in given if not isinstance(each.frame, Clock | Watermark)]
        routed = self._stages.route_portions([portion], 1, home)
        tallies = {f"{SENT}1": sent_rows(routed)}
        return [
            StageMessage(
                portions, clock_us, Numbers.onwards(self._arrivals), counts=counts if shard == home else Accounting(),
                tallies=tallies if shard == home else {},
            ).pack()
            for shard, portions in enumerate(routed)
        ]  # fmt: skip

    def rescale(self, shards: int) -> None:
        """Go on with another number of shards."""
        self._layout, self._stages = replace(self._layout, shards=shards), replace(self._stages, shards=shards)
        stored, self.entries = self.entries, []
        for step, olds in enumerate(stored, start=1):
            made = [EntryMap({}) for _ in range(shards)]
            for number, entries in enumerate(made):
                make_shard(self._stages, step, number, [EntryMap(each) for each in olds], entries)
            self.entries.append([each.merged() for each in made])

    def use_overflow(self, overflow: Overflow) -> None:
        """Let shards write large output to files."""
        self._stages = replace(self._stages, overflow=overflow)

    def _result(self, given: list[tuple[str, bytes]]) -> BatchResult:
        counts, frames = Accounting(), list[Frame]()
        outputs = [(kind, payload) for kind, payload in given if kind != OVERFLOW]
        for _, payload in (each for each in given if each[0] == OVERFLOW):
            outputs += [(kind, part.read().to_pybytes()) for kind, part in parts_in(payload)]
        reports = Reports.of(payload for kind, payload in outputs if kind == REPORT)
        reports.check_crossings()
        self.reports = [ShardReport.unpack(payload)[0] for kind, payload in outputs if kind == REPORT]
        for _, payload in outputs:
            found, its_counts, _ = unpack_frames(payload)
            frames += found
            counts = counts + its_counts
        for step in {report.step for report in self.reports}:
            watermarks = {report.watermark_us for report in self.reports if report.step == step}
            assert len(watermarks) == 1, f"shards disagree on the watermark: {watermarks}"
        accounts = {"": counts, **reports.stages()}
        for name, account in accounts.items():
            account.check(self._buffered.get(name, 0))
        self._buffered = {name: account.buffered for name, account in accounts.items()}
        self.watermark_us = reports.watermark_us(self.watermark_us)
        whole = concat(frame.batch for frame in frames if isinstance(frame, Emissions))
        side = [frame.batch for frame in frames if isinstance(frame, SideRows)]
        return BatchResult({} if whole is None else {"": [whole]}, side, self.watermark_us, accounts)


def staged(layout: Layout, sql: str, **arguments: Any) -> Harness:
    """A harness whose query runs in stages."""
    harness = Harness(sql, **arguments)
    empty = harness._inputs.schema(harness._pushed([], harness._streams[0], "0"))
    stages, _ = split_stages(harness.plan, empty, shards=layout.shards, feedback=layout.feedback, spread=layout.spread)
    if not harness._data_driven:
        stages = replace(stages, templates=tuple(map(_driven_by_hand, map(stages.graph, range(len(stages.templates))))))
    harness._runner = StagedRunner(stages, layout)  # type: ignore[assignment]  # has what the harness calls
    return harness


def rescale(harness: Harness, shards: int) -> None:
    """Let a staged harness go on with another number of shards."""
    runner: Any = harness._runner
    runner.rescale(shards)


def _driven_by_hand(graph: Graph) -> bytes:
    for operator in graph.operators:
        if isinstance(operator, EventtimeWatermark):
            operator.data_driven = False
    return pickle.dumps(graph)
