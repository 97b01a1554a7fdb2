"""A stateful stage, which transformWithState runs once per shard: merges partials, moves time and closes windows.

A query has one for each shuffle. One that is not the last sends messages to the next, through which its report and side
rows travel on to the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from windowpane.core.accounting import Accounting
from windowpane.core.blob import Blob
from windowpane.core.frames import (
    BatchEnd,
    Clock,
    ClosedStates,
    ControlSignal,
    Emissions,
    Frame,
    Given,
    SideRows,
    Watermark,
)
from windowpane.core.graph import Graph
from windowpane.core.numbering import Numbers, Portion, numbered
from windowpane.core.operators.base import Holding
from windowpane.core.operators.watermark import follow_time
from windowpane.core.side import STAGE, not_read
from windowpane.core.state import EntryMap
from windowpane.core.wire import StageMessage, data_rows, pack_frames
from windowpane.spark.entries import StoredEntries
from windowpane.spark.job_stages import JobStages, entries_of, tagged
from windowpane.spark.overflow import Outlet, in_payloads
from windowpane.spark.piece_cache import worker_cache
from windowpane.spark.shard_report import ShardReport
from windowpane.spark.stages import MESSAGE, PACKED, RECEIVED, SENT, Stages, sent_rows
from windowpane.spark.timings import MERGE, PACK, STATE_CALLS, in_shares, timed
from windowpane.spark.worker_garbage import freeze_loaded

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

OUTPUT = PACKED
REPORT, RESULTS, SIDE, CLOSED = "report", "results", "side", "closed"
STATE_KEY = StructType([StructField("entry", StringType())])
STATE_VALUE = StructType([StructField("blob", BinaryType())])
"""As types, not as text: each task would ask the JVM to parse a text, twice."""


def state_name(job: JobStages, step: int) -> str:
    """The name of a step's state variable. That of the last one is what it was when there was only one."""
    return "operators" if step == job.last_step else f"operators_{step}"


class MergeStage(StatefulProcessor):
    """State: a map of Arrow blobs per shard, named by operator and entry. `shard_ids`: as of FoldStage."""

    def __init__(self, job: JobStages, step: int, shard_ids: Sequence[int], cache_bytes: int) -> None:
        """`cache_bytes`: how much of the state each executor caches on its disk."""
        self._job, self._step, self._shard_ids = job, step, tuple(shard_ids)
        self._cache_bytes = cache_bytes

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(state_name(self._job, self._step), STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        messages = []
        for row in rows:
            if row["kind"] == MESSAGE:
                messages.append((row["origin"], bytes(row["payload"])))
            else:
                yield Row(shard=key[0], origin=row["origin"], kind=row["kind"], payload=row["payload"])
        messages.sort(key=lambda pair: pair[0])
        spent: Counter[str] = Counter()
        with timed(spent, STATE_CALLS):
            stored = StoredEntries(self._state, spent, worker_cache(self._cache_bytes))
            entries = EntryMap(stored, stored.size_of)
        with timed(spent, MERGE):
            shard = JobShard(self._job, entries, self._step)
            shard.take([payload for _, payload in messages])
        with timed(spent, STATE_CALLS):
            stored.write(entries.changes)
        for to, kind, payload in addressed(shard, self._shard_ids.index(key[0]), spent):
            yield Row(shard=self._shard_ids[to], origin=key[0], kind=kind, payload=payload)
        freeze_loaded()


def addressed(shard: JobShard, number: int, spent: Counter[str]) -> Iterator[tuple[int, str, bytes]]:
    """What shard `number` gives, with the shard of the next step that each payload goes to or through."""
    with timed(spent, PACK):
        messages = shard.messages(number)
    for to, payload in enumerate(messages):
        yield to, MESSAGE, payload
    for kind, payload in shard.outputs(spent):
        yield number, kind, payload


class JobShard:
    """One shard of a step for one micro-batch: the operators of all transforms, over one state."""

    def __init__(self, job: JobStages, entries: EntryMap, step: int) -> None:
        self._job, self._entries, self._step = job, entries, step
        self._shards: dict[str, Shard] = {}
        """Of the transforms that were given something."""
        self._dropped: dict[str, bytes] = {}
        """Of transforms that the job no longer has: the message that said so."""

    def take(self, payloads: Iterable[Blob]) -> None:
        """Process the messages of the stage before."""
        received = self._received(payloads)
        taking = {tag: parts for tag, parts in received.items() if parts or not self._job.is_tagged}
        for tag in taking:
            self._open(tag)
        for tag, parts in taking.items():
            self._shards[tag].take(parts)

    def end(self, clock_us: int, payloads: Iterable[Blob] = ()) -> None:
        """Graceful end of all transforms. `payloads`: what the stage before has given at its end."""
        for tag, received in self._received(payloads).items():
            self._open(tag)
            self._shards[tag].end(clock_us, received)

    def messages(self, number: int) -> list[bytes]:
        """What this shard, number `number`, sends to each shard of the next step."""
        given = {tag: shard.messages(number) for tag, shard in self._shards.items()}
        sent = {tag: payloads for tag, payloads in given.items() if payloads}
        if self._step < self._job.last_step:
            sent |= {tag: [payload] * self._job.shards for tag, payload in self._dropped.items()}
        numbers = range(self._job.shards) if sent else ()
        return [self._job.pack({tag: payloads[to] for tag, payloads in sent.items()}) for to in numbers]

    def outputs(self, spent: Mapping[str, int] = MappingProxyType({})) -> list[tuple[str, bytes]]:
        """Reports, results and side rows, after `messages`. `spent`: more tallies, of which each has an equal share."""
        shares = iter(in_shares(spent, len(self._shards)))
        return [
            (tagged(kind, tag), payload)
            for tag, shard in self._shards.items()
            for kind, payload in shard.outputs(next(shares))
        ]

    def _received(self, payloads: Iterable[Blob]) -> dict[str, list[Blob]]:
        received: dict[str, list[Blob]] = {tag: [] for tag in self._job.at(self._step)}
        for payload in payloads:
            for tag, part in self._job.unpack(payload).items():
                if tag in self._job.members:
                    received[tag].append(part)
                else:
                    self._drop(tag, part)
        return received

    def _drop(self, tag: str, message: Blob) -> None:
        """Remove the state of a transform that the job no longer has."""
        self._dropped[tag] = bytes(message)
        entries = entries_of(self._entries, tag)
        for name in list(entries.names()):
            entries.remove(name)

    def _open(self, tag: str) -> None:
        """All are opened before one of them takes anything: a new version begins where the one before has come to."""
        own, before = entries_of(self._entries, tag), self._followed(tag)
        self._shards[tag] = shard = self._shard(self._job.members[tag], own)
        if before in self._job.at(self._step) and not own.names():
            followed = self._job.members[before].graph(self._step)
            followed.load(entries_of(self._entries, before))
            shard.follow(followed)

    def _followed(self, tag: str) -> str | None:
        """The last version before that has a state: one that was changed before it ran has none."""
        before = self._job.follows.get(tag)
        while before is not None and not entries_of(self._entries, before).names():
            before = self._job.follows.get(before)
        return before

    def _shard(self, stages: Stages, entries: EntryMap) -> Shard:
        return Shard(stages, entries, self._step)


class Shard:
    """The operators of one transform in one shard of a step for one micro-batch, with the state of the previous one."""

    def __init__(self, stages: Stages, entries: EntryMap, step: int = 1) -> None:
        self._stages, self._step, self._graph = stages, step, stages.graph(step)
        self._entries = entries
        self._graph.load(entries)
        self._outlet, self._results, self._side = Outlet(stages.overflow), 0, Counter[str]()
        self._crossing: list[Given] = []
        """What goes on to the next step."""
        self._watermarks: dict[str, int | None] = {}
        self._accounts: dict[str, Accounting] = {}
        """By stage."""
        self._clock_us, self._tallies = 0, Counter[str]()
        self._latest_us: int | None = None
        self._ends = False
        """The transform ends with this micro-batch."""

    def follow(self, other: Graph) -> None:
        """Begin where time stands in the operators of another query over the same rows."""
        if self._step == 1:
            follow_time(self._graph, other)

    def take(self, payloads: Iterable[Blob]) -> None:
        """Process the messages of the stage before."""
        received = self._received(payloads)
        self._finish(received, ControlSignal.END if self._ends else BatchEnd())
        if self._ends:
            for name in list(self._entries.names()):
                self._entries.remove(name)

    def end(self, clock_us: int, payloads: Iterable[Blob] = ()) -> None:
        """Graceful end: everything open is emitted. `payloads`: what the stage before has given at its end."""
        received = self._received(payloads)
        self._clock_us = clock_us
        self._finish(received, ControlSignal.END)

    def messages(self, number: int) -> list[bytes]:
        """What this shard, number `number`, sends to each shard of the next step; nothing if this is the last step."""
        if self._step == self._stages.last_step:
            return []
        routed = self._stages.route_portions([Portion(frames=self._crossing)], self._step + 1, number)
        self._tallies[f"{SENT}{self._step + 1}"] += sent_rows(routed)
        watermarks = self._graph.watermarks()
        return [
            StageMessage(portions, self._clock_us, watermarks=watermarks, ends=self._ends).pack() for portions in routed
        ]

    def outputs(self, spent: Mapping[str, int] = MappingProxyType({})) -> list[tuple[str, bytes]]:
        """The report, results and side rows, after `messages`. `spent`: more tallies."""
        report = ShardReport.of(
            self._graph, self._clock_us, step=self._step, state_bytes=self._entries.size(), side=self._side,
            results=self._results, tallies={**self._tallies, **spent}, latest_us=self._latest_us,
        )  # fmt: skip
        return [(REPORT, report.pack(self._accounts)), *self._outlet.rows()]

    def holdings(self) -> list[tuple[str, Holding]]:
        """What the operators keep, each with the operator's name."""
        return [
            (f"{type(node.operator).__name__} of {node.stage}".removesuffix(" of "), held)
            for node in self._graph.nodes
            for held in node.operator.holdings()
        ]

    def _received(self, payloads: Iterable[Blob]) -> list[Given]:
        """The frames of all messages, in order and with their final numbers."""
        sent, numbers = list[Portion](), Numbers.onwards(0)
        for each in map(StageMessage.unpack, payloads):
            sent += each.portions
            numbers = each.numbers or numbers
            self._count({"": each.counts})
            self._clock_us = max(self._clock_us, each.clock_us)
            self._tallies.update(each.tallies)
            self._watermarks |= each.watermarks
            self._ends |= each.ends
            if each.latest_us is not None:
                self._latest_us = each.latest_us if self._latest_us is None else max(each.latest_us, self._latest_us)
        frames = numbered(sent, numbers, self._stages.arrival_states)
        self._tallies[f"{RECEIVED}{self._step}"] += data_rows(given.frame for given in frames)
        return frames

    def _finish(self, received: list[Given], end: Frame) -> None:
        """Feed all entries, each with the messages that begin and end a micro-batch, and save the state."""
        for given in received:
            if isinstance(given.frame, SideRows):
                self._put(given)
        for entry in self._graph.entries:
            data = [frame for source, frame in received if source == entry and not isinstance(frame, SideRows)]
            for given in self._graph.flow(entry, [*self._before(entry), *data, *self._after(entry), end]):
                self._put(self._told_apart(given))
        self._count(self._graph.take_counts())
        self._graph.save(self._entries)

    def _told_apart(self, given: Given) -> Given:
        """Side rows of a stage with an account of its own say so: the account of the rows read does not have them."""
        if not isinstance(given.frame, SideRows) or not self._graph.stage_of(given.source):
            return given
        return Given(given.source, SideRows(not_read(given.frame.batch, STAGE)))

    def _count(self, accounts: Mapping[str, Accounting]) -> None:
        for stage, account in accounts.items():
            self._accounts[stage] = self._accounts.get(stage, Accounting()) + account

    def _before(self, entry: str) -> list[Frame]:
        """The time, and at the first step the watermark that rows are judged against."""
        before = self._graph.watermark_before(entry) if self._step == 1 else None
        return [Clock(self._clock_us), *([] if before is None else [Watermark(before)])]

    def _after(self, entry: str) -> list[Frame]:
        """The watermark that the step before has moved. The first step has operators that move it."""
        reached, now = self._graph.watermark_before(entry), self._watermarks.get(entry)
        return [] if now is None or (reached is not None and now <= reached) else [Watermark(now)]

    def _put(self, given: Given) -> None:
        """Pack a result as soon as it is given, so that not all results of a large window are in memory."""
        match given.frame:
            case SideRows(batch):
                for kind in batch.column("kind").value_counts().to_pylist():
                    self._side[kind["values"]] += kind["counts"]
                for part in in_payloads(batch):
                    self._outlet.put(SIDE, pack_frames([SideRows(part)], Accounting()))
            case ClosedStates(states):
                for part in in_payloads(states):
                    self._outlet.put(CLOSED, pack_frames([ClosedStates(part)], Accounting()))
            case Clock() | Watermark() | BatchEnd() | ControlSignal():
                pass
            case Emissions(emitted) if self._step == self._stages.last_step:
                batch = self._stages.results_in.results(emitted)
                self._results += batch.num_rows
                for part in in_payloads(self._shown(batch)):
                    self._outlet.put(RESULTS, pack_frames([Emissions(part)], Accounting()))
            case _:
                self._crossing.append(given)

    def _shown(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """Without the columns that nothing behind the last stage uses."""
        columns = self._stages.result_columns
        return results if columns is None else results.select(list(columns))
