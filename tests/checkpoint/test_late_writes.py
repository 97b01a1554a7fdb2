"""A process that is paused between the check of its lease and the write, while another one takes over and goes on.

The write lands late. Nothing that the other process has written may be lost, hidden or counted twice. The pause comes
before each of the changes that an operation makes, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pytest

from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint.fenced import FencedStore
from windowpane.checkpoint.generations import NextGeneration, remove_others
from windowpane.checkpoint.lease import lease_lost
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.outbox import PendingBatch
from windowpane.checkpoint.outbox_check import check_outbox
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.result_outbox import ResultPart, WaitingResults
from windowpane.checkpoint.store import Lease, Store
from windowpane.checkpoint.table_versions import TableVersion
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError

Act = Callable[[Checkpoint], object]
RECORD = PlanRecord("p", "SELECT", 2, unnamed_until=-1)
ENTRY = Entry(5, clock_us=0, watermark_us=5, accounting={}, totals={}, results=2)
OLD, NEW = PendingBatch(5, [], ('{"v":1}',) * 2), PendingBatch(5, [], ('{"v":2}',) * 2)
"""Two attempts at a batch have as many rows. They are the same; here they differ, to be told apart."""


@dataclass
class Holder:
    """The lease of one process. `pause` runs after the check number `before`; from then on the lease is lost."""

    fence: int
    pause: Callable[[], object] | None = None
    before: int = 0
    checks: int = 0

    acquire: ClassVar[Callable[[], bool]]
    held: ClassVar[Callable[[], bool]]
    release: ClassVar[Callable[[], None]]

    def check(self) -> None:
        if self.pause is not None and self.checks > self.before:
            raise lease_lost("q")
        self.checks += 1
        if self.pause is not None and self.checks > self.before:
            self.pause()


def held(store: Store, lease: Lease) -> Checkpoint:
    return Checkpoint(FencedStore(store, lease))


def outcomes(before: Act, paused: Act, following: Act) -> Iterator[Checkpoint]:
    """The checkpoint as the second process has it, for each moment at which the first one may be paused."""
    moment, is_paused = 0, True
    while is_paused:
        store = MemoryStore()
        before(held(store, Holder(1)))
        second = held(store, Holder(3))

        def take_over(second: Checkpoint = second) -> None:
            second._take_over()
            second.plan.write(second.record())
            following(second)

        first = Holder(2, take_over, moment)
        _run_until_lost(paused, held(store, first))
        is_paused = first.checks > moment
        if is_paused:
            yield second
        moment += 1
    assert moment > 1, "the first process changes something"


def _run_until_lost(paused: Act, first: Checkpoint) -> None:
    try:
        paused(first)
    except StateError as lost:
        if lost.code != "LEASE_LOST":
            raise


def began(checkpoint: Checkpoint) -> None:
    """Batch 4 is committed, batch 5 is planned, and an attempt at it has been made."""
    checkpoint.plan.create(RECORD)
    checkpoint.store.replace("spark/commits/4", b"v1\n{}")
    checkpoint.store.replace("spark/offsets/5", b"v1\n{}\n-")
    checkpoint.outbox("dlq").put(replace(OLD, batch_id=4))
    checkpoint.outbox("dlq").note_delivered(4, 2)
    checkpoint.outbox("dlq").put(OLD)


def test_side_rows_that_are_put_again() -> None:
    def again(checkpoint: Checkpoint) -> None:
        checkpoint.outbox("dlq").forget_after(4)
        checkpoint.outbox("dlq").put(NEW)

    for second in outcomes(began, lambda first: first.outbox("dlq").put(OLD), again):
        outbox = second.outbox("dlq")
        assert (outbox.pending(), outbox.read(5), outbox.handed_over(5)) == ({5: 2}, NEW, 4)


def test_side_rows_of_batches_that_were_not_committed_are_forgotten() -> None:
    for second in outcomes(
        began, lambda first: first.outbox("dlq").forget_after(4), lambda second: second.outbox("dlq").put(NEW)
    ):
        assert second.outbox("dlq").read(5) == NEW


def test_side_rows_that_are_delivered_already() -> None:
    def deliver(checkpoint: Checkpoint) -> None:
        checkpoint.outbox("dlq").put(NEW)
        checkpoint.outbox("dlq").note_delivered(5, 2)

    for second in outcomes(began, lambda first: first.outbox("dlq").put(OLD), deliver):
        outbox = second.outbox("dlq")
        assert (outbox.pending(), outbox.delivered(), outbox.handed_over(5)) == ({}, 4, 4)
        outbox.forget_after(5)
        assert [name for name in second.store.below("outbox/dlq").names() if name.endswith(".side")] == []


def waiting(value: int, batch_id: int = 5, part: str = "") -> WaitingResults:
    parts = (ResultPart(name=part, rows=1, size=1),) if part else ()
    return WaitingResults(
        batch_id=batch_id, since_us=value, columns="{}", run="r", identified=False, was_unnamed=False,
        table=pa.table({"v": [value]}), parts=parts,
    )  # fmt: skip


def test_results_that_are_put_again_or_delivered_already() -> None:
    old, new = "000000000005-old.arrow", "000000000005-new.arrow"

    def put(value: int, part: str, checkpoint: Checkpoint) -> None:
        checkpoint.store.replace(f"results-outbox/pg/parts/{part}", b"")
        checkpoint.result_outbox("pg").put(waiting(value, part=part))

    def began_with_results(checkpoint: Checkpoint) -> None:
        began(checkpoint)
        checkpoint.result_outbox("pg").put(waiting(0, batch_id=4))
        checkpoint.result_outbox("pg").note_delivered(4, 1)

    def again(checkpoint: Checkpoint) -> None:
        checkpoint.result_outbox("pg").forget_after(4)
        put(2, new, checkpoint)

    def deliver(checkpoint: Checkpoint) -> None:
        again(checkpoint)
        checkpoint.result_outbox("pg").note_delivered(5, 2)

    for second in outcomes(began_with_results, partial(put, 1, old), again):
        outbox = second.result_outbox("pg")
        assert (outbox.pending(), outbox.read(5).table.to_pydict(), outbox.handed_over(5)) == ({5: 2}, {"v": [2]}, 3)
        assert new in second.store.below("results-outbox/pg/parts").names()
    for second in outcomes(began_with_results, partial(put, 1, old), deliver):
        outbox = second.result_outbox("pg")
        assert (outbox.pending(), outbox.handed_over(5)) == ({}, 3)
        outbox.forget_after(5)
        assert second.store.below("results-outbox/pg").names() == ["delivered.json"]


def test_a_count_of_delivered_rows() -> None:
    def deliver(checkpoint: Checkpoint) -> None:
        for batch_id in (5, 6):
            checkpoint.outbox("dlq").put(replace(OLD, batch_id=batch_id))
            checkpoint.outbox("dlq").note_delivered(batch_id, 2)

    for second in outcomes(began, lambda first: first.outbox("dlq").note_delivered(5, 2), deliver):
        assert second.outbox("dlq").delivered() == 6
    found = [
        second.outbox("dlq").delivered()
        for second in outcomes(began, lambda first: first.outbox("dlq").note_delivered(5, 2), lambda _second: None)
    ]
    assert found == [2, 4], "the second time, the rows were counted before the pause"


def test_a_file_that_the_other_process_has_read() -> None:
    for following, files in (
        (lambda _second: None, {}),
        (lambda second: second.unreadable.record(5, {"b": "gone"}), {"b": "gone"}),
    ):
        for second in outcomes(began, lambda first: first.unreadable.record(5, {"a": "truncated"}), following):
            assert second.unreadable.of(5) == files


def test_a_version_of_a_table() -> None:
    def version(number: int, from_batch: int, fence: int) -> TableVersion:
        return TableVersion(number, from_batch, taken_us=fence, schema="{}", fence=fence)

    def start(checkpoint: Checkpoint) -> None:
        began(checkpoint)
        for number in (1, 2):
            checkpoint.tables.add("t", version(number, number, 1))

    late, taken = version(3, 5, 2), version(3, 6, 3)
    found = [
        second.tables.of("t")[-1]
        for second in outcomes(start, lambda first: first.tables.add("t", late), lambda _second: None)
    ]
    assert found == [version(2, 2, 1), late], "the second time, the version was added before the pause"
    second = next(
        outcomes(start, lambda first: first.tables.add("t", late), lambda second: second.tables.add("t", taken))
    )
    assert second.tables.of("t")[-1] == taken
    paths = {held(MemoryStore(), Holder(1)).tables.path("t", 3, fence) for fence in (2, 3)}
    assert len(paths) == 2, "what Spark still writes for the first is not in the copy of the second"


def rescale(checkpoint: Checkpoint) -> None:
    following = NextGeneration(checkpoint.store, checkpoint.record(), 8)
    remove_others(checkpoint.store, following.before)
    checkpoint.store.replace(f"{following.folder}/metadata", b"new")
    following.use()


def test_a_rescale_beside_a_run() -> None:
    for second in outcomes(began, rescale, lambda second: second.store.replace("spark/offsets/6", b"")):
        record = second.record()
        if record.generation == 0:
            assert record == RECORD
            assert second.store.exists("spark/offsets/6")


def test_a_start_beside_a_rescale() -> None:
    def start(checkpoint: Checkpoint) -> None:
        began(checkpoint)
        checkpoint.store.replace("spark-1/metadata", b"left by a rescale that was killed")

    def run(checkpoint: Checkpoint) -> None:
        remove_others(checkpoint.store, "spark")
        checkpoint.plan.write(replace(checkpoint.record(), unnamed_until=4))

    for second in outcomes(start, run, rescale):
        assert (second.record().shards, second.record().generation) == (8, 3)
        assert second.store.read("spark-3/metadata") == b"new"


def test_the_mark_of_a_graceful_end() -> None:
    def end(checkpoint: Checkpoint) -> None:
        checkpoint.ledger.write(replace(ENTRY, final=True, fence=2))
        checkpoint.finish(5)

    def go_on(checkpoint: Checkpoint) -> None:
        if not checkpoint.is_finished():
            checkpoint.ledger.write(replace(ENTRY, fence=3))
            checkpoint.queue.put(5, {"s": ["{}"]})

    found = []
    for second in outcomes(began, end, go_on):
        found.append(second.is_finished())
        assert found[-1] or second.store.read("reinject/s/000000000005.json") == b"{}\n"
        assert found[-1] == (second.ledger.read(5) == replace(ENTRY, final=True, fence=2))
    assert found == [False, False, False, True], "the mark was written before the last pause only"


def test_rows_to_be_read_again() -> None:
    def start(checkpoint: Checkpoint) -> None:
        began(checkpoint)
        checkpoint.queue.put(5, {"s": ['{"v":1}']})

    def again(checkpoint: Checkpoint) -> None:
        checkpoint.queue.forget_after(4)
        checkpoint.queue.put(5, {"s": ['{"v":2}']})

    for second in outcomes(start, lambda first: first.queue.forget_after(4), again):
        assert second.store.read("reinject/s/000000000005.json") == b'{"v":2}\n'


def test_an_entry_of_the_ledger() -> None:
    for second in outcomes(
        began,
        lambda first: first.ledger.write(replace(ENTRY, fence=2)),
        lambda second: second.ledger.write(replace(ENTRY, fence=3)),
    ):
        assert second.ledger.read(5) == replace(ENTRY, fence=3)


@pytest.mark.parametrize("text", [b"no JSON", b"[]", b"7"])
def test_a_damaged_record_is_left_to_its_reader(text: bytes) -> None:
    store = MemoryStore()
    store.replace("outbox/dlq/delivered.json", text)
    held(store, Holder(1)).outbox("dlq").take_over()
    assert store.read("outbox/dlq/delivered.json") == text


def test_a_missing_file_of_the_outbox_is_named_with_the_number_of_its_writer() -> None:
    store = MemoryStore()
    first = held(store, Holder(4))
    first.outbox("dlq").put(NEW)
    first.ledger.write(replace(ENTRY, fence=4, outbox={"dlq": 2}))
    check_outbox(first.ledger, first.outbox, 5, lambda entry: entry.outbox)
    store.clear("outbox/dlq/000000000005-2-4.side")
    with pytest.raises(StateError, match=r"/000000000005-2-4\.side is damaged: it is gone"):
        check_outbox(first.ledger, held(store, Holder(5)).outbox, 5, lambda entry: entry.outbox)
