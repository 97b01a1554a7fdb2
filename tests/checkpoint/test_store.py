"""The contract of a store, the same for every implementation: a new one is added to `STORES`."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from scripts.servers import S3
from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.hadoop_store import HadoopStore
from windowpane.checkpoint.object_store import ObjectStore
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError
from windowpane.remote.access import Access
from windowpane.remote.hadoop import NO_HADOOP

Given: TypeAlias = Callable[[str], Any]
"""A fixture by its name."""

STORES: dict[str, Callable[[Path, Given], Store]] = {
    "memory": lambda _folder, _given: MemoryStore(),
    "folder": lambda folder, _given: FolderStore(folder),
    "folder without hard links": lambda folder, _given: FolderStore(folder),
    "s3": lambda folder, given: bucket_store(given("s3"), folder.parent.name),
    "hdfs": lambda folder, given: HadoopStore(f"{given('hdfs').url}/{folder.parent.name}/state", NO_HADOOP, 2),
}
MARKED = ("s3", "hdfs")
"""Stores whose name is that of the server they need."""


def bucket_store(server: S3, name: str) -> Store:
    return ObjectStore(f"s3a://{server.bucket}/{name}/state", Access.of_spark(server.settings), lease_seconds=1.0)


PARAMETERS = [pytest.param(name, marks=getattr(pytest.mark, name)) if name in MARKED else name for name in STORES]


@pytest.fixture(params=PARAMETERS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "folder without hard links":
        monkeypatch.setattr(os, "link", _refused)
    return STORES[request.param](tmp_path / "state", request.getfixturevalue)


def _refused(*_arguments: object, **_named: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_nothing_is_there_before_something_is_written(store: Store) -> None:
    assert store.names() == []
    assert store.read("a") is None
    assert not store.exists("a")
    assert not store.lease("run.lock").held()
    store.delete("a")
    store.clear("a")
    store.move("a", "b")
    store.sweep()
    assert store.below("deep/inside").names() == []
    assert store.names() == []


def test_create_takes_a_name_once(store: Store) -> None:
    assert store.create("q/plan.json", b"first")
    assert not store.create("q/plan.json", b"second")
    assert store.read("q/plan.json") == b"first"
    assert not store.create("q", b"a folder has this name")
    assert store.below("q").names() == ["plan.json"]


def test_of_many_who_create_one_name_one_succeeds(store: Store) -> None:
    together = threading.Barrier(8)

    def create(number: int) -> bool:
        together.wait()
        return store.create("plan.json", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))
    assert sum(made) == 1
    assert store.read("plan.json") == str(made.index(True)).encode()
    assert store.names() == ["plan.json"]


def test_replace_writes_what_is_new_and_what_is_not(store: Store) -> None:
    for data in (b"one", b"", b"three" * 1000):
        store.replace("ledger/1.json", data)
        assert store.read("ledger/1.json") == data
    assert store.below("ledger").names() == ["1.json"]


def test_readers_see_whole_objects(store: Store) -> None:
    contents = {bytes([number]) * 50_000 for number in range(20)}
    store.replace("x", min(contents))
    seen: set[bytes | None] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(store.read("x"))

    reader = threading.Thread(target=read)
    reader.start()
    for data in contents:
        store.replace("x", data)
    done.set()
    reader.join()
    assert seen <= contents


def test_below_is_the_same_place_by_a_shorter_name(store: Store) -> None:
    inside = store.below("q").below("ledger")
    inside.replace("1.json", b"x")
    assert store.read("q/ledger/1.json") == b"x"
    assert inside.address("1.json") == store.address("q/ledger/1.json")
    assert inside.address() == store.address("q/ledger")
    assert store.address("q").startswith(store.address())


def test_a_folder_for_spark_is_empty_at_first_and_keeps_what_is_in_it(store: Store) -> None:
    for _ in range(2):
        store.make_folder("reinject/s")
        assert store.below("reinject/s").names() == []
    store.replace("reinject/s/1.json", b"x")
    store.make_folder("reinject/s")
    assert store.read("reinject/s/1.json") == b"x"
    assert store.spark_path("reinject/s/1.json") == f"{store.spark_path()}/reinject/s/1.json"
    assert store.below("reinject").spark_path("s") == store.spark_path("reinject/s")


def test_names_are_those_directly_below(store: Store) -> None:
    for name in ("b", "a", "folder/inside", "folder/deep/er"):
        store.replace(name, b"")
    assert store.names() == ["a", "b", "folder"]
    assert store.below("folder").names() == ["deep", "inside"]
    assert store.below("a").names() == [], "an object has nothing below it"
    assert store.exists("folder")
    assert store.exists("folder/deep/er")
    assert not store.exists("folde")


def test_an_object_gets_another_name(store: Store) -> None:
    store.replace("q/1.side", b"x")
    store.replace("q/1.side.damaged", b"old")
    store.move("q/1.side", "q/1.side.damaged")
    assert store.below("q").names() == ["1.side.damaged"]
    assert store.read("q/1.side.damaged") == b"x"


def test_an_object_or_a_folder_is_copied(store: Store) -> None:
    for name in ("one", "folder/two", "folder/deep/three"):
        store.replace(name, name.encode())
    for name in ("one", "folder", "nothing"):
        store.copy(name, f"copy/{name}")
    assert store.read("copy/one") == store.read("one") == b"one"
    assert store.read("copy/folder/two") == b"folder/two"
    assert store.read("copy/folder/deep/three") == store.read("folder/deep/three") == b"folder/deep/three"
    assert store.below("copy").names() == ["folder", "one"]


def test_delete_removes_one_object_and_clear_all_below(store: Store) -> None:
    for name in ("q/1", "q/2", "q/deep/3", "qq/4", "r"):
        store.replace(name, b"")
    store.delete("q/1")
    assert store.below("q").names() == ["2", "deep"]
    store.clear("q")
    assert store.names() == ["qq", "r"]
    store.clear("r")
    assert store.names() == ["qq"]


def test_what_is_exchanged_is_what_was_known(store: Store) -> None:
    assert store.exchange("ledger/1.json", b"one", None)
    assert not store.exchange("ledger/1.json", b"two", None)
    assert not store.exchange("ledger/1.json", b"two", b"other")
    assert not store.exchange("ledger/2.json", b"two", b"one"), "it is not there"
    assert store.exchange("ledger/1.json", b"two", b"one")
    assert store.read("ledger/1.json") == b"two"
    assert store.below("ledger").names() == ["1.json"]


def test_what_cannot_be_changed_is_an_error_of_ours(store: Store) -> None:
    if isinstance(store, ObjectStore):
        pytest.skip("an object and a folder may have the same name")
    store.replace("folder/x", b"")
    with pytest.raises(StateError) as refused:
        store.replace("folder", b"")
    assert refused.value.code == "STATE"
    assert store.read("folder/x") == b""
    assert store.names() == ["folder"]


def test_one_holder_has_the_lease_until_it_gives_it_back(store: Store) -> None:
    first, second = store.lease("run.lock"), store.lease("run.lock")
    assert first.acquire()
    assert not second.acquire()
    second.release()
    assert store.lease("run.lock").held()
    first.release()
    first.release()
    assert not first.held()
    assert second.acquire()
    assert first.held()
    assert not store.lease("other.lock").held()
    second.release()


def test_an_object_is_adopted_and_stays_when_the_other_one_changes(store: Store) -> None:
    store.replace("q/state/1.zip", b"one")
    assert store.below("kept").adopt(store, "q/state/1.zip", "state/1.zip")
    assert store.below("kept").adopt(store.below("kept"), "state/1.zip", "again")
    assert store.adopt(store, "q/state/1.zip", "kept/again"), "what has the name is replaced"
    store.replace("q/state/1.zip", b"two")
    store.clear("q")
    assert not store.adopt(store, "q/state/1.zip", "kept/gone")
    assert not store.adopt(store, "kept/again/below", "kept/gone")
    assert store.sizes("kept") == {"state/1.zip": 3, "again": 3}
    assert store.read("kept/state/1.zip") == b"one"
    assert store.sizes("q") == {}


def test_an_object_of_another_place_is_adopted(store: Store) -> None:
    elsewhere = MemoryStore("elsewhere:")
    elsewhere.replace("a", b"x" * 10)
    assert store.adopt(elsewhere, "a", "deep/b")
    assert elsewhere.adopt(store, "deep/b", "c")
    assert not store.adopt(elsewhere, "nothing", "deep/c")
    assert elsewhere.sizes("") == {"a": 10, "c": 10}
    assert store.sizes("") == {"deep/b": 10}


@pytest.mark.s3
def test_the_mark_by_which_hadoop_keeps_a_folder_is_no_name_in_it(s3: S3) -> None:
    store = bucket_store(s3, "marked")
    store.create("full/a", b"1")
    for folder in ("full", "empty"):
        mark = f"{s3.url}/{s3.bucket}/marked/state/{folder}/"
        with urllib.request.urlopen(urllib.request.Request(mark, method="PUT")):  # our own server
            pass
    assert (store.below("full").names(), store.below("empty").names()) == (["a"], [])
