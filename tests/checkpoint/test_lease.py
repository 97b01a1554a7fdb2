"""The lease: taken over from a holder that is away, which then changes nothing any more."""

from __future__ import annotations

import errno
import fcntl
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint import lease as leases
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.lease import StoreLease
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.outbox import Outbox
from windowpane.checkpoint.run_lock import RunLock
from windowpane.errors import StateError
from windowpane.process_identity import has_ended, own_machine, own_process

ENTRY = Entry(7, clock_us=0, watermark_us=5, accounting={"in_": 1}, totals={"in_": 1}, results=2)


class Paused(StoreLease):
    """A lease of a process that is stopped after it has taken it: nothing renews it."""

    def _renew(self, ending: threading.Event) -> None:
        pass


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_holder_that_is_away_is_followed_and_then_kept_out(store: MemoryStore) -> None:
    away, after = Paused(store, "lease", seconds=0.2), StoreLease(store, "lease", seconds=0.2)
    assert away.acquire()
    away.check()
    began = time.monotonic()
    assert after.acquire()
    assert time.monotonic() - began > 0.2
    assert (away.fence, after.fence) == (1, 2)
    with pytest.raises(StateError) as lost:
        away.check()
    assert lost.value.code == "LEASE_LOST"
    after.check()
    away.release()
    assert after.held(), "the lease of another is not given back"
    after.release()
    assert not after.held()


def test_a_holder_that_was_away_and_was_not_followed_goes_on(store: MemoryStore) -> None:
    away = Paused(store, "lease", seconds=0.1)
    assert away.acquire()
    time.sleep(0.15)
    away.check()


def test_a_renewed_lease_is_not_taken_however_long_one_waits(store: MemoryStore) -> None:
    held, other = StoreLease(store, "lease", seconds=1.0), StoreLease(store, "lease", seconds=1.0)
    assert held.acquire()
    for _ in range(3):
        assert not other.acquire()
        time.sleep(0.05)
    held.release()
    assert other.acquire()
    other.release()


def test_a_process_of_this_machine_that_has_ended_is_followed_at_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(leases, "own_process", lambda: "4194304/17")
        assert Paused(store, "lease", seconds=60).acquire()
    assert not StoreLease(store, "lease").held()
    after = StoreLease(store, "lease")
    assert after.acquire()
    after.release()
    assert not has_ended(own_machine(), own_process())
    assert not has_ended("another machine", "4194304/17"), "nobody knows"


def test_a_damaged_object_of_the_lease_is_one_that_nobody_renews() -> None:
    for text in (b"no JSON", b"[]", b'{"seconds": null}', b"{}"):
        damaged = leases.Holding.parsed(4, text)
        assert (damaged.fence, damaged.released, damaged.seconds) == (4, False, leases.SECONDS)
        assert not damaged.is_over()


def test_on_a_folder_the_lock_is_for_this_machine_and_the_lease_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path, lease_seconds=1.0)
    first = store.lease("run.lock")
    assert first.acquire()
    assert not store.lease("run.lock").acquire()
    (tmp_path / "run.lock").unlink()  # as where locks do not reach
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(leases, "own_machine", lambda: "another machine")
        elsewhere.setattr(leases, "is_same_system", lambda _machine: False)
        other = store.lease("run.lock")
        assert not other.acquire(), "the first one renews its lease"
        assert other.held()
    first.release()
    assert other.acquire()
    other.release()


def test_a_folder_without_locks_has_the_lease_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_given: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    store = FolderStore(tmp_path, lease_seconds=1.0)
    first, second = store.lease("run.lock"), store.lease("run.lock")
    assert first.acquire()
    assert not second.acquire()
    assert second.held()
    first.release()
    assert not second.held()
    assert second.acquire()
    second.release()


def test_who_was_followed_changes_nothing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "lease", lambda self, name: Paused(self, name, seconds=0.1))
    first, second = RunLock(store), RunLock(store)
    mine = first.acquire()
    mine.replace("status.json", b"of the first")
    theirs = second.acquire()
    changes = (
        lambda: mine.replace("status.json", b""), lambda: mine.create("x", b""), lambda: mine.delete("status.json"),
        lambda: mine.below("t").replace("y", b""), lambda: mine.clear("t"), lambda: mine.move("status.json", "z"),
        lambda: mine.exchange("x", b"", None), lambda: mine.copy("status.json", "z"), lambda: mine.make_folder("f"),
    )  # fmt: skip
    for change in changes:
        with pytest.raises(StateError) as lost:
            change()
        assert lost.value.code == "LEASE_LOST"
    assert mine.read("status.json") == b"of the first"
    theirs.replace("status.json", b"of the second")


def test_a_store_without_conditions_is_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "create", lambda *_given: True)
    with pytest.raises(StateError) as refused:
        RunLock(store).acquire()
    assert refused.value.code == "STORE_UNCONDITIONAL"


def test_a_ledger_entry_of_a_later_holder_stays(store: MemoryStore) -> None:
    ledger = Ledger(store.below("ledger"))
    ledger.write(replace(ENTRY, fence=1))
    ledger.write(replace(ENTRY, fence=2, results=3))
    ledger.write(replace(ENTRY, fence=2, results=4))
    with pytest.raises(StateError) as lost:
        ledger.write(replace(ENTRY, fence=1))
    assert lost.value.code == "LEASE_LOST"
    assert ledger.read(7) == replace(ENTRY, fence=2, results=4)


def test_a_count_of_delivered_rows_that_another_has_changed_is_not_overwritten(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(store.below("outbox/s"))
    assert outbox.note_delivered(1, rows=5) == 5
    assert outbox.note_delivered(2, rows=5) == 10
    monkeypatch.setattr(MemoryStore, "exchange", lambda *_given: False)
    with pytest.raises(StateError) as lost:
        outbox.note_delivered(3, rows=5)
    assert lost.value.code == "LEASE_LOST"
