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
from windowpane.core.frames import Clock, ClosedStates, Emissions, Frame, Rows, SideRows, Watermark
from windowpane.core.graph import Graph
from windowpane.core.numbering import Numbers, Portion
from windowpane.core.operators.watermark import EventtimeWatermark
from windowpane.core.rows import concat
from windowpane.core.runner import BatchResult
from windowpane.core.state import EntryMap
from windowpane.core.wire import StageMessage, unpack_frames
from windowpane.spark.job_stages import ALONE, JobStages, untagged
from windowpane.spark.merge_stage import REPORT, JobShard, Shard
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


class AdvancedJobShard(JobShard):
    """The shards of all transforms, of this kind."""

    advance_to_us: int | None = None

    def _shard(self, stages: Stages, entries: EntryMap) -> Shard:
        shard = AdvancedShard(stages, entries, self._step)
        shard.advance_to_us = self.advance_to_us
        return shard


Batches = Mapping[str, Iterable[pa.RecordBatch]]
"""Rows by stream."""


class StagedJob:
    """Transforms that run together. All that lives from one micro-batch to the next is `entries`, as on Spark."""

    def __init__(self, job: JobStages, layout: Layout) -> None:
        self.job, self._layout = job, layout
        self.entries: list[list[Entries]] = [[{} for _ in range(layout.shards)] for _ in range(job.last_step)]
        """Of every step and shard."""
        self.watermarks: dict[str, int | None] = dict.fromkeys(job.members)
        self._buffered: dict[str, dict[str, int]] = {tag: {} for tag in job.members}
        self._arrivals = dict.fromkeys(job.members, 0)
        self.reports: list[ShardReport] = []
        """Of the last micro-batch, of the transform that was asked for last."""

    def run_batch(
        self, clock_us: int, rows: Mapping[str, Batches], *, advance_to_us: int | None = None
    ) -> dict[str, BatchResult]:
        """`rows`: of each transform, by tag."""
        tasks = {tag: self._tasks(chain.from_iterable(each.values())) for tag, each in rows.items()}
        sent = []
        for task in range(max(map(len, tasks.values()))):
            parts = {tag: each[task] for tag, each in tasks.items() if task < len(each)}
            folded = {tag: self._fold(tag, task, part, clock_us) for tag, part in parts.items()}
            shards = range(self._layout.shards)
            sent.append([self.job.pack({tag: payloads[to] for tag, payloads in folded.items()}) for to in shards])
        for tag, parts_of in tasks.items():
            self._arrivals[tag] += sum(0 if part is None else part.num_rows for part in parts_of)

        def take(shard: AdvancedJobShard, payloads: list[bytes]) -> None:
            shard.advance_to_us = advance_to_us
            shard.take(payloads)

        return self._results(self._steps(sent, take))

    def end(self, clock_us: int) -> dict[str, BatchResult]:
        return self._results(self._steps([], lambda shard, payloads: shard.end(clock_us, payloads)))

    def _steps(
        self, sent: list[list[bytes]], run: Callable[[AdvancedJobShard, list[bytes]], None]
    ) -> list[tuple[str, bytes]]:
        """The outputs of all stateful stages. `sent`: of every task, a payload per shard."""
        outputs = list[tuple[str, bytes]]()
        for step, shards in enumerate(self.entries, start=1):
            given = list[list[bytes]]()
            for number, entries in enumerate(shards):
                state = EntryMap(entries)
                shard = AdvancedJobShard(self.job, state, step)
                run(shard, [payloads[number] for payloads in sent if payloads])
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

    def _fold(self, tag: str, task: int, rows: pa.RecordBatch | None, clock_us: int) -> list[bytes]:
        stages, watermark_us = self.job.members[tag], self.watermarks[tag]
        frames: list[Frame] = [Clock(clock_us)]
        if self._layout.feedback and watermark_us is not None:
            frames.append(Watermark(watermark_us))
        portion = Portion(rows=0 if rows is None else rows.num_rows)
        frames += [] if rows is None else [Rows(stages.complete_rows(rows, 0))]
        graph = stages.fold()
        given = graph.feed(graph.entries[0], frames)
        counts = sum(graph.take_counts().values(), Accounting())
        home = task % self._layout.shards
        portion.frames = [each for each in given if not isinstance(each.frame, Clock | Watermark)]
        routed = stages.route_portions([portion], 1, home)
        tallies = {f"{SENT}1": sent_rows(routed)}
        numbers = Numbers.onwards(self._arrivals[tag])
        return [
            StageMessage(
                portions, clock_us, numbers, counts=counts if shard == home else Accounting(),
                tallies=tallies if shard == home else {},
            ).pack()
            for shard, portions in enumerate(routed)
        ]  # fmt: skip

    def rescale(self, shards: int) -> None:
        """Go on with another number of shards."""
        self._layout = replace(self._layout, shards=shards)
        self._change(lambda stages: replace(stages, shards=shards))
        stored, self.entries = self.entries, []
        for step, olds in enumerate(stored, start=1):
            made = [EntryMap({}) for _ in range(shards)]
            for number, entries in enumerate(made):
                make_shard(self.job, step, number, [EntryMap(each) for each in olds], entries)
            self.entries.append([each.merged() for each in made])

    def use_overflow(self, overflow: Overflow) -> None:
        """Let shards write large output to files."""
        self._change(lambda stages: replace(stages, overflow=overflow))

    def _change(self, change: Callable[[Stages], Stages]) -> None:
        self.job = replace(self.job, members={tag: change(each) for tag, each in self.job.members.items()})

    def _results(self, given: list[tuple[str, bytes]]) -> dict[str, BatchResult]:
        outputs: dict[str, list[tuple[str, bytes]]] = {tag: [] for tag in self.job.members}
        for marked, payload in given:
            kind, tag = untagged(marked)
            if kind == OVERFLOW:
                outputs[tag] += [(its, part.read().to_pybytes()) for its, part in parts_in(payload)]
            else:
                outputs[tag].append((kind, payload))
        return {tag: self._result(tag, each) for tag, each in outputs.items()}

    def _result(self, tag: str, outputs: list[tuple[str, bytes]]) -> BatchResult:
        counts, frames = Accounting(), list[Frame]()
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
            account.check(self._buffered[tag].get(name, 0))
        self._buffered[tag] = {name: account.buffered for name, account in accounts.items()}
        self.watermarks[tag] = watermark_us = reports.watermark_us(self.watermarks[tag])
        whole = concat(frame.batch for frame in frames if isinstance(frame, Emissions))
        side = [frame.batch for frame in frames if isinstance(frame, SideRows)]
        closed = [frame.batch for frame in frames if isinstance(frame, ClosedStates)]
        return BatchResult({} if whole is None else {"": [whole]}, side, watermark_us, accounts, closed)


class StagedRunner(StagedJob):
    """What `Runner` is to the harness: a job of one transform."""

    def __init__(self, stages: Stages, layout: Layout) -> None:
        super().__init__(JobStages.alone(stages), layout)
        self.graph = Graph([])
        self.heard: list[tuple[int, Batches, int | None]] = []
        """What each micro-batch was given, so that it can be given to a job of several."""

    @property
    def watermark_us(self) -> int | None:
        return self.watermarks[ALONE]

    def run_batch(  # type: ignore[override]  # as the harness calls it
        self, clock_us: int, rows: Batches, *, advance_to_us: int | None = None
    ) -> BatchResult:
        kept = {name: list(batches) for name, batches in rows.items()}
        self.heard.append((clock_us, kept, advance_to_us))
        return super().run_batch(clock_us, {ALONE: kept}, advance_to_us=advance_to_us)[ALONE]

    def end(self, clock_us: int) -> BatchResult:  # type: ignore[override]  # as the harness calls it
        return super().end(clock_us)[ALONE]


def staged(layout: Layout, sql: str, **arguments: Any) -> Harness:
    """A harness whose query runs in stages."""
    return keeping_closed(layout, sql, None, **arguments)


def keeping_closed(layout: Layout, sql: str, keep_closed_us: int | None, **arguments: Any) -> Harness:
    """The same, with closed windows that are kept."""
    harness = Harness(sql, **arguments)
    empty = harness._inputs.schema(harness._pushed([], harness._streams[0], "0"))
    stages, _ = split_stages(
        replace(harness.plan, keep_closed_us=keep_closed_us),
        empty,
        shards=layout.shards,
        feedback=layout.feedback,
        spread=layout.spread,
    )
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
