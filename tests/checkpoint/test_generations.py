"""The next generation of Spark's checkpoint: logs and state of the one before, with another number of partitions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.generations import NextGeneration, remove_others
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.checkpoint.resetting import remove_checkpoints
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError

CONF = {"spark.sql.shuffle.partitions": "2", "other": "old", "spark.sql.streaming.stateStore.formatVersion": "4"}
SEEDED = {"spark.sql.shuffle.partitions": "5", "other": "new", "spark.sql.streaming.stateStore.formatVersion": "5"}


def offsets(conf: dict[str, str], *sources: str) -> bytes:
    return "\n".join(["v1", json.dumps({"batchTimestampMs": 7, "conf": conf}), *sources]).encode()


def made(folder: Path, *, committed: int = 6, planned: int = 7) -> FolderStore:
    """A checkpoint with two shards after some batches."""
    store = FolderStore(folder)
    PlanFile(store).create(PlanRecord("plan", "SELECT 1", 2))
    store.replace("spark/metadata", b'{"id": "same"}')
    store.replace("spark/sources/0/6", b"v1\nfiles")
    for batch_id in range(max(committed, planned) + 1):
        store.replace(f"spark/offsets/{batch_id}", offsets(CONF, f'{{"logOffset":{batch_id}}}', "-"))
    for batch_id in range(committed + 1):
        store.replace(f"spark/commits/{batch_id}", b"v1\n{}")
    return store


def seed(store: FolderStore) -> None:
    """What Spark leaves when it has written the new state."""
    store.replace("spark-1/offsets/0", offsets(SEEDED, "{}"))
    store.replace("spark-1/commits/0", b"v1\n{}")
    store.replace("spark-1/sources/0/0", b"v1\nseed")
    for name in ("0/0/1.zip", "0/0/.1.zip.crc", "1/4/1.zip", "0/0/SSTs/1.sst", "0/_metadata/v2/0"):
        store.replace(f"spark-1/state/{name}", name.encode())


def next_of(store: FolderStore) -> NextGeneration:
    record = PlanFile(store).read()
    assert record is not None
    return NextGeneration(store, record, 5)


def test_it_continues_where_the_one_before_stopped(tmp_path: Path) -> None:
    store = made(tmp_path)
    following = next_of(store)
    following.begin()
    seed(store)
    following.take_up_logs()
    assert Checkpoint(store).spark == str(tmp_path / "spark")
    following.use()
    checkpoint, spark = Checkpoint(store), store.below("spark-1")
    assert checkpoint.record().shards == 5
    assert checkpoint.spark == str(tmp_path / "spark-1")
    assert (checkpoint.log.run_id(), checkpoint.log.last_committed(), checkpoint.log.last_planned()) == ("same", 6, 7)
    assert spark.below("offsets").names() == ["5", "6", "7"]
    assert spark.below("commits").names() == ["5", "6"]
    for batch_id in (5, 6, 7):
        version, metadata, *sources = (spark.read(f"offsets/{batch_id}") or b"").decode().split("\n")
        wanted = SEEDED | {"other": "old"}
        assert (version, json.loads(metadata)) == ("v1", {"batchTimestampMs": 7, "conf": wanted})
        assert sources == [f'{{"logOffset":{batch_id}}}', "-"]
    assert spark.below("sources/0").names() == ["6"]
    assert spark.below("state/0/0").names() == [".7.zip.crc", "7.zip", "SSTs"]
    assert spark.below("state/1/4").names() == ["7.zip"]
    assert spark.read("state/0/0/SSTs/1.sst") == b"0/0/SSTs/1.sst"
    assert not store.exists("spark")


def test_a_batch_that_was_only_planned_is_repeated(tmp_path: Path) -> None:
    store = made(tmp_path, committed=-1, planned=0)
    following = next_of(store)
    following.begin()
    following.take_up_logs()
    following.use()
    log = Checkpoint(store).log
    assert (log.last_committed(), log.last_planned()) == (-1, 0)
    assert b'"spark.sql.shuffle.partitions":"5"' in (store.read("spark-1/offsets/0") or b"")


def test_the_one_in_use_stays_when_others_are_removed(tmp_path: Path) -> None:
    store = made(tmp_path)
    for name in ("spark-1/x", "spark-12/x", "rescale/old/x", "spark-mine/x", "sparkle"):
        store.replace(name, b"")
    remove_others(store, "spark-1")
    assert store.names() == ["plan.json", "spark-1", "spark-mine", "sparkle"]


def test_reset_removes_all_generations(tmp_path: Path) -> None:
    store = made(tmp_path)
    for name in ("spark-3/x", "rescale/x", "mine"):
        store.replace(name, b"")
    remove_checkpoints([Checkpoint(store)])
    assert store.names() == ["mine"]


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("spark/offsets/6", b"v1\n[]\n")
    with pytest.raises(StateError, match="spark/offsets/6 is damaged"):
        next_of(store).take_up_logs()
