"""Savepoints on every store: what they keep, that they stay as they were, and what is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict

import pytest

from tests.checkpoint.checkpoints import entry, make_checkpoint, packed, write_batch
from tests.checkpoint.memory_store import MemoryStore
from tests.checkpoint.test_late_writes import waiting
from tests.checkpoint.test_store import store as store  # noqa: PLC0414  # a fixture
from windowpane.checkpoint.job_folders import job_folders
from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.outbox import Outbox
from windowpane.checkpoint.restoring import MARK, Origin, check_empty, check_restored, mark, restore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import take_savepoint
from windowpane.checkpoint.savepoints import Moment, Savepoints
from windowpane.checkpoint.spark_files import SparkFiles
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError


def restored(store: Store, name: str, to: str = "elsewhere") -> Store:
    target = store.below(to)
    restore(Origin(store, Savepoints(store).find(name)), target)
    return target


def test_a_savepoint_stays_when_the_checkpoint_goes_on_and_is_where_another_one_begins(store: Store) -> None:
    make_checkpoint(store, 5)
    write_batch(store, "hot", 5, committed=False)
    taken = take_savepoint(store, "before-x")
    assert taken.moments == {"hot": Moment(4, 4_000_000, 2_000_000, 15)}
    for batch_id in range(5, 9):
        write_batch(store, "hot", batch_id)
    store.clear("hot/spark/state")
    store.clear("hot/ledger")
    assert [each.name for each in Savepoints(store).all()] == ["before-x"]

    target = restored(store, "before-x")
    there = Checkpoint(target.below("hot"))
    assert there.log.last_committed() == 4
    assert there.log.last_planned() == 5, "the batch that was planned is run as it was planned"
    assert there.ledger.batch_ids() == [0, 1, 2, 3, 4]
    assert there.log.run_id() not in ("the-original", "")
    record = there.plan.read()
    assert record is not None
    assert record.unnamed_until == -1
    assert there.outbox("errors").pending() == {1: 2, 2: 2, 3: 2, 4: 2}
    assert there.outbox("errors").handed_over(4) == 10
    state = target.below("hot/spark/state/0/0")
    assert state.names() == ["3.zip", "4.changelog", "5.changelog", "SSTs"]
    assert state.below("SSTs").names() == ["000002-x.sst"]
    assert state.read("5.changelog") == b"changes 4"
    described = target.read("hot/spark/state/0/_metadata/v2/0") or b""
    (path,) = json.loads(described.split(b"\n")[1])["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert path.removeprefix("file:") == target.spark_path("hot/spark/state/0/_stateSchema/default/0_abc")
    assert not target.exists(MARK)


def test_two_savepoints_of_one_checkpoint_and_one_is_removed(store: Store) -> None:
    make_checkpoint(store, 1)
    take_savepoint(store, "a")
    write_batch(store, "hot", 1)
    take_savepoint(store, "b")
    with pytest.raises(StateError) as taken:
        take_savepoint(store, "b")
    assert taken.value.code == "SAVEPOINT_EXISTS"
    kept = Savepoints(store)
    assert [(each.name, each.moments["hot"].batch_id) for each in kept.all()] == [("a", 0), ("b", 1)]
    kept.delete("a")
    assert [each.name for each in kept.all()] == ["b"]
    assert not store.exists("savepoints/a/0/hot/plan.json")
    with pytest.raises(StateError) as missing:
        kept.delete("a")
    assert missing.value.code == "NO_SAVEPOINT"
    assert "savepoints: b" in str(missing.value.hint)
    assert OffsetLog(restored(store, "b").below("hot/spark")).last_committed() == 1


def test_what_was_cut_off_is_not_listed_and_is_swept(store: Store) -> None:
    make_checkpoint(store, 2)
    kept = Savepoints(store)
    kept.begin("half")
    store.replace("savepoints/half/0/hot/plan.json", b"{}")
    store.replace("savepoints/late/7/hot/plan.json", b"a process that was away")
    assert kept.all() == []
    with pytest.raises(StateError, match="no savepoint `half`"):
        kept.find("half")
    take_savepoint(store, "whole")
    assert store.below("savepoints").names() == ["whole"]
    take_savepoint(store, "half")
    assert [each.name for each in kept.all()] == ["whole", "half"]


def test_a_damaged_savepoint_is_refused_with_the_name_of_the_file(store: Store) -> None:
    make_checkpoint(store, 3)
    taken = take_savepoint(store, "x")
    kept, files = Savepoints(store), Savepoints(store).files(taken)
    kept.check(taken)
    for name, damaged in {
        "hot/spark/state/0/0/SSTs/000002-x.sst": None,
        "hot/spark/offsets/2": b"v1",
        "hot/plan.json": (files.read("hot/plan.json") or b"").replace(b"SELECT 1", b"SELECT 2"),
    }.items():
        whole = files.read(name) or b""
        if damaged is None:
            files.delete(name)
        else:
            files.replace(name, damaged)
        with pytest.raises(StateError) as refused:
            restored(store, "x")
        assert refused.value.code == "CHECKPOINT_CORRUPT"
        assert files.address(name) in refused.value.message
        assert not store.exists("elsewhere/hot")
        files.replace(name, whole)
    kept.check(taken)
    store.replace("savepoints/x/savepoint.json", b"{")
    kept.sweep()  # at every start, which a damaged savepoint does not prevent
    with pytest.raises(StateError, match=r"savepoint\.json is damaged"):
        kept.all()
    kept.delete("x")
    assert kept.all() == []


def test_a_process_that_has_lost_its_lease_completes_no_savepoint() -> None:
    store = MemoryStore()
    lock = RunLock(store)
    held = lock.acquire()
    make_checkpoint(held, 1)

    def standstill(_job: str) -> nullcontext[None]:
        """While files are copied, another process takes over, and sweeps."""
        store.replace("run.lock.lease/000000000009.json", b"{}")
        Savepoints(store).sweep()
        return nullcontext()

    with pytest.raises(StateError) as lost:
        take_savepoint(held, "x", standstill)
    assert lost.value.code == "LEASE_LOST"
    assert Savepoints(store).all() == []
    lock.release()


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "x" * 101, "mit leer"])
def test_names_that_a_store_might_not_take_are_refused(name: str) -> None:
    with pytest.raises(StateError) as refused:
        take_savepoint(_made(), name)
    assert refused.value.code == "BAD_NAME"


def test_results_that_wait_for_a_sink_are_kept_with_their_parts() -> None:
    store = _made(4)
    outbox = Checkpoint(store.below("hot")).result_outbox("pg")
    for batch_id in range(5):  # batch 3 is the last one that is committed
        part = f"{batch_id:012}-a.arrow"
        store.replace(f"hot/results-outbox/pg/parts/{part}", b"rows")
        outbox.put(waiting(7, batch_id, part))
    outbox.note_delivered(0, 2)
    take_savepoint(store, "x")
    for batch_id in range(1, 5):
        outbox.note_delivered(batch_id, 2)
    there = Checkpoint(restored(store, "x").below("hot"))
    assert there.result_outbox("pg").pending() == {1: 2, 2: 2, 3: 2}
    assert there.result_outbox("pg").handed_over(3) == 8
    assert there.store.below("results-outbox/pg/parts").names() == [f"{each:012}-a.arrow" for each in (1, 2, 3)]
    assert there.runs() == [there.log.run_id()]
    assert there.result_outbox("pg").read(1).run not in there.runs(), "delivered as those of this checkpoint"


def test_side_rows_that_left_before_the_commit_are_not_counted_as_delivered() -> None:
    store = _made(3)
    outbox = Outbox(store.below("hot/outbox/errors"))
    write_batch(store, "hot", 3)
    for batch_id in (1, 2, 3):
        outbox.note_delivered(batch_id, 2)
    store.delete("hot/spark/commits/3")  # batch 3 is written and not committed
    take_savepoint(store, "x")
    there = Checkpoint(restored(store, "x").below("hot")).outbox("errors")
    assert (there.delivered(), there.settled_until(), there.pending()) == (6, 2, {})


def test_only_rows_that_no_batch_has_read_are_read_again() -> None:
    store = _made(3)
    queue = store.below("hot").spark_path("reinject")
    for batch_id in range(4):
        store.replace(f"hot/reinject/bids/{batch_id:012}.json", b'{"_reinjections":1}\n')
    line = json.dumps({"path": f"{queue}/bids/000000000000.json", "batchId": 2})
    store.replace("hot/spark/sources/0/2", f"v1\n{line}".encode())
    taken = take_savepoint(store, "x")
    assert [name for name in taken.files if "reinject" in name] == [
        "hot/reinject/bids/000000000001.json", "hot/reinject/bids/000000000002.json",
    ]  # fmt: skip
    target = restored(store, "x")
    log = target.read("hot/spark/sources/0/2") or b""
    path = json.loads(log.split(b"\n")[1])["path"]
    assert path == target.spark_path("hot/reinject/bids/000000000000.json"), "nothing of the original is named"


def test_a_checkpoint_before_its_first_batch_has_a_savepoint_and_a_finished_one_has_none() -> None:
    store = MemoryStore()
    with pytest.raises(StateError) as nothing:
        take_savepoint(store, "x")
    assert nothing.value.code == "NO_CHECKPOINT"
    make_checkpoint(store, 0)
    assert take_savepoint(store, "x").moments == {"hot": Moment(-1)}
    assert Checkpoint(restored(store, "x").below("hot")).log.last_committed() == -1
    store.replace("hot/finished.json", b'{"format": 1, "batch_id": 3}')
    with pytest.raises(StateError) as finished:
        take_savepoint(store, "y")
    assert finished.value.code == "CHECKPOINT_FINISHED"


def test_state_that_lacks_a_file_gives_no_savepoint() -> None:
    for name in ("4.changelog", "SSTs/000002-x.sst"):
        store = _made(5)
        store.delete(f"hot/spark/state/0/0/{name}")
        with pytest.raises(StateError) as refused:
            take_savepoint(store, "x")
        assert refused.value.code == "CHECKPOINT_CORRUPT"
        assert refused.value.message.startswith(f"memory:/hot/spark/state/0/0/{name} is damaged: it is missing")
        assert Savepoints(store).all() == []
        assert store.below("savepoints").names() == []


def test_a_file_that_is_listed_and_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _made(1)
    monkeypatch.setattr(MemoryStore, "adopt", lambda *_given: False)
    with pytest.raises(StateError, match="memory:/hot/spark/metadata: it is listed") as refused:
        take_savepoint(store, "x")
    assert refused.value.code == "STATE"


def test_files_of_attempts_with_ids_of_their_own_are_all_kept() -> None:
    store = _made(2)
    state = store.below("hot/spark/state/0/0")
    for name, data in {
        "2_a.zip": packed("x.sst"), "2_b.changelog": b"b", "3_c.changelog": b"c", "SSTs/x.sst": b"x", "SSTs/y.sst": b"y"
    }.items():  # fmt: skip
        state.replace(name, data)
    sizes = store.below("hot/spark").sizes("")
    found = {name for name in SparkFiles(store.below("hot/spark"), sizes, 1, 1).needed() if "state/0/0" in name}
    assert {name.removeprefix("state/0/0/") for name in found} == {
        "1.changelog", "2.changelog", "2_a.zip", "2_b.changelog", "SSTs/x.sst", "SSTs/y.sst"
    }  # fmt: skip


def test_of_a_compacted_log_of_files_only_the_rest_is_kept() -> None:
    store = _made(23)
    store.delete("hot/spark/sources/0/19")
    store.replace("hot/spark/sources/0/19.compact", b'v1\n{"path": "/input/1.json", "batchId": 1}')
    taken = take_savepoint(store, "x")
    assert sorted(name for name in taken.files if "/sources/" in name) == [
        f"hot/spark/sources/0/{name}" for name in ("19.compact", "20", "21", "22")
    ]


def test_all_jobs_of_a_pipeline_are_kept_each_at_its_own_batch() -> None:
    store = _made(2)
    make_checkpoint(store, 4, "cold")
    store.replace("notes.txt", b"not ours")
    stood: list[str] = []

    def standstill(job: str) -> nullcontext[None]:
        stood.append(job)
        return nullcontext()

    taken = take_savepoint(store, "x", standstill)
    assert {name: moment.batch_id for name, moment in taken.moments.items()} == {"cold": 3, "hot": 1}
    assert stood == ["cold", "hot"]
    assert {name.partition("/")[0] for name in taken.files} == {"cold", "hot"}


def test_transforms_that_share_a_job_are_kept_at_the_batch_of_the_job() -> None:
    store = MemoryStore()
    make_checkpoint(store, 2, "jobs/bids")
    store.delete("jobs/bids/plan.json")
    store.replace("jobs/bids/job.json", b'{"format": 1, "transforms": ["hot", "cold"], "shards": 2, "generation": 0}')
    shared = {"hot": asdict(entry(1)), "cold": asdict(entry(1, watermark_us=7))}
    store.replace("jobs/bids/ledger/000000000001.json", json.dumps({"batch_id": 1, "transforms": shared}).encode())
    for transform in shared:
        store.replace(f"{transform}/plan.json", b'{"format": 1}')
        for batch_id in (1, 2):
            store.replace(f"{transform}/outbox/errors/{batch_id:012}-2.side", b"rows")
    taken = take_savepoint(store, "x")
    assert taken.moments == {"jobs/bids": Moment(1, 1_000_000, 7, 6)}
    assert taken.homes == ["jobs/bids", "cold", "hot"]
    target = restored(store, "x")
    assert [(job.name, job.homes) for job in job_folders(target)] == [("jobs/bids", ("jobs/bids", "cold", "hot"))]
    assert target.below("hot/outbox/errors").names() == ["000000000001-2.side"]
    assert OffsetLog(target.below("jobs/bids/spark")).run_id() != "the-original"


def test_a_checkpoint_that_is_there_is_not_replaced_and_a_restore_that_was_cut_short_is_repeated() -> None:
    store, target = _made(2), MemoryStore("other:")
    origin = Origin(store, take_savepoint(store, "x"))
    check_empty(target, origin.address)
    mark(target, origin, {"command": "run --from"})
    target.replace("hot/outbox/errors/000000000009-1.side", b"of the attempt that was cut short")
    with pytest.raises(StateError) as begun:
        check_restored(target)
    assert begun.value.code == "RESTORE_CUT_SHORT"
    check_empty(target, origin.address)
    restore(origin, target)
    check_restored(target)
    assert Checkpoint(target.below("hot")).outbox("errors").pending() == {1: 2}
    with pytest.raises(StateError) as there:
        check_empty(target, origin.address)
    assert there.value.code == "CHECKPOINT_NOT_EMPTY"


def _made(batches: int = 1) -> MemoryStore:
    store = MemoryStore()
    make_checkpoint(store, batches)
    assert Ledger(store.below("hot/ledger")).last() == (
        entry(batches - 1, outbox={"errors": 2 * batches}) if batches else None
    )
    return store
