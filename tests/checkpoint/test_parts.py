"""The parts of a checkpoint on any store: written, read again, and what earlier versions have written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoint.memory_store import MemoryStore
from tests.checkpoint.test_agreement import entry
from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import KEPT
from windowpane.checkpoint.outbox import PendingBatch
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.resetting import remove_checkpoints
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError
from windowpane.testing import Harness
from windowpane.time_zones import DATABASE


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path)


@pytest.fixture
def checkpoint(store: Store) -> Checkpoint:
    return Checkpoint(store.below("q"))


def test_the_ledger_keeps_the_last_entries(checkpoint: Checkpoint) -> None:
    for batch_id in (0, 1, KEPT):
        checkpoint.ledger.write(entry(batch_id))
    assert checkpoint.ledger.batch_ids() == [1, KEPT]
    assert checkpoint.ledger.last() == entry(KEPT)
    assert checkpoint.ledger.read(0) is None


def test_the_outbox_replaces_delivers_and_sets_aside(checkpoint: Checkpoint) -> None:
    outbox = checkpoint.outbox("dlq")
    outbox.put(PendingBatch(1, [], ["{}"] * 3))
    outbox.put(PendingBatch(1, [], ["{}"] * 2))
    outbox.put(PendingBatch(2, [], ["{}"]))
    outbox.put(PendingBatch(3, [], ["{}"]))
    assert outbox.pending() == {1: 2, 2: 1, 3: 1}
    assert outbox.read(1).texts == ("{}", "{}")
    assert outbox.note_delivered(1, 2) == outbox.note_delivered(1, 2) == 2
    outbox.set_aside(2, 1)
    outbox.forget_after(2)
    assert (outbox.pending(), outbox.unreadable(), outbox.handed_over(3)) == ({}, ["000000000002-1.side.damaged"], 3)
    assert list(checkpoint.outboxes()) == ["dlq"]
    with pytest.raises(StateError, match="batch 3 are gone"):
        outbox.read(3)


def test_the_queue_forgets_batches_that_were_never_committed(checkpoint: Checkpoint) -> None:
    for batch_id in (4, 5):
        checkpoint.queue.put(batch_id, {"s": ["{}"], "t": ["{}", "{}"]})
    checkpoint.queue.forget_after(4)
    for stream, rows in (("s", b"{}\n"), ("t", b"{}\n{}\n")):
        inside = checkpoint.store.below(f"reinject/{stream}")
        assert [inside.read(f"{batch_id:012}.json") for batch_id in (4, 5)] == [rows, b"\n"]
    checkpoint.store.replace("reinject/s/notes.json", b"")
    with pytest.raises(StateError, match=r"notes\.json is damaged"):
        checkpoint.queue.forget_after(4)


def test_unreadable_files_of_several_attempts_add_up(checkpoint: Checkpoint) -> None:
    checkpoint.unreadable.record(3, {"a": "gone"})
    checkpoint.unreadable.record(3, {"b": "truncated"})
    assert checkpoint.unreadable.of(3) == {"a": "gone", "b": "truncated"}
    assert checkpoint.unreadable.of(4) == {}


def test_a_plan_of_an_earlier_version_is_read(checkpoint: Checkpoint) -> None:
    with pytest.raises(StateError, match="there is no checkpoint in"):
        checkpoint.record()
    checkpoint.store.replace("plan.json", b'{"format": 1, "plan_id": "p", "sql": "SELECT", "shards": 2, "new": 1}')
    assert checkpoint.record() == PlanRecord("p", "SELECT", 2)
    assert not checkpoint.record().is_unnamed(0)
    with pytest.raises(StateError, match="another process runs"):
        checkpoint.plan.create(PlanRecord("other", "SELECT", 2))
    checkpoint.plan.write(PlanRecord("p", "SELECT", 2, unnamed_until=4))
    assert [checkpoint.record().is_unnamed(batch_id) for batch_id in (4, 5)] == [True, False]
    checkpoint.store.replace("plan.json", json.dumps({"format": 1, "plan_id": 7, "sql": "", "shards": 2}).encode())
    with pytest.raises(StateError, match="`plan_id` is missing or of another type"):
        checkpoint.record()


def test_changed_rules_of_a_time_zone_are_recorded_and_told(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('dd', 1, 'Europe/Berlin')"
    plan = Harness(sql, streams={"s": {"schema": "ts TIMESTAMP"}}).plan
    record = checkpoint.claim(plan, 2)
    assert record.time_zones["Europe/Berlin"].endswith(f" {DATABASE}")
    assert checkpoint.claim(plan, 2) == checkpoint.record() == record
    assert not caplog.records
    checkpoint.plan.write(replace(record, time_zones={"Europe/Berlin": "0123456789abcdef tzdata 1999z"}))
    assert checkpoint.claim(plan, 2) == checkpoint.record() == record
    assert f"Europe/Berlin have changed from tzdata 1999z to {DATABASE}" in caplog.text


def test_requests_and_the_lock(store: Store) -> None:
    Requests(store).put("drain")
    assert [Requests(store).take(), Requests(store).take()] == ["drain", None]
    first, second = RunLock(store), RunLock(store)
    first.acquire()
    with pytest.raises(StateError, match="another process runs"):
        second.acquire()
    first.release()
    assert not second.held()


def test_a_reset_leaves_what_is_not_ours_and_undelivered_rows(store: Store, checkpoint: Checkpoint) -> None:
    checkpoint.plan.write(PlanRecord("p", "SELECT", 2))
    checkpoint.ledger.write(entry(0))
    checkpoint.outbox("dlq").put(PendingBatch(0, [], ["{}"]))
    checkpoint.ledger.write(replace(entry(1), final=True))
    checkpoint.finish(1)
    assert checkpoint.is_finished()
    assert checkpoint.write_undelivered("dlq", ["{}", "\ud800"]).endswith("undelivered-dlq.jsonl")
    remove_checkpoints([checkpoint])
    assert store.below("q").names() == ["undelivered-dlq.jsonl"]
    assert checkpoint.store.read("undelivered-dlq.jsonl") == b"{}\n?\n"
