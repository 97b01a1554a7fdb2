"""What a folder store promises beyond the contract: modes, unfinished writes, damage, syncing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.errors import StateError


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    found = FolderStore(tmp_path / "state")
    found.make_root(0o750)
    return found


def test_modes_are_those_of_the_root(store: FolderStore, tmp_path: Path) -> None:
    store.create("q/plan.json", b"")
    store.replace("q/ledger/1.json", b"")
    lease = store.lease("run.lock")
    assert lease.acquire()
    lease.release()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        "state": 0o750, "q": 0o750, "ledger": 0o750, "plan.json": 0o640, "1.json": 0o640, "run.lock": 0o640,
        "run.lock.lease": 0o750, "000000000001.json": 0o640,
    }  # fmt: skip


def test_open_files_are_tightened_and_nothing_is_widened(store: FolderStore, tmp_path: Path) -> None:
    wanted = {"q": 0o750, "spark": 0o750, "0": 0o640, "deep": 0o700, "mine": 0o600, "1.sst": 0o600}
    before = wanted | {"q": 0o755, "spark": 0o777, "0": 0o664}
    (tmp_path / "elsewhere").touch(0o644)
    for name in ("q/spark/0", "q/spark/deep/1.sst", "q/mine"):
        store.replace(name, b"")
    for path in sorted((tmp_path / "state").rglob("*"), reverse=True):
        path.chmod(before[path.name])
    (tmp_path / "state" / "q" / "link").symlink_to(tmp_path / "elsewhere")
    store.below("q").tighten()
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path / "state").rglob("*")}
    assert modes == wanted | {"link": 0o777}
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o644
    store.below("absent").tighten()
    assert not store.exists("absent")


def test_unfinished_writes_are_no_objects_and_are_swept(store: FolderStore, tmp_path: Path) -> None:
    for name in (".plan.json.17.tmp", ".plan.json.17-4.tmp", ".notes.tmp"):
        (tmp_path / "state" / name).write_bytes(b"half")
    store.replace("plan.json", b"whole")
    assert store.names() == [".notes.tmp", "plan.json"]
    store.sweep()
    assert {path.name for path in (tmp_path / "state").iterdir()} == {".notes.tmp", "plan.json"}, "a user's file stays"


def test_a_write_that_fails_leaves_nothing(store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (store.replace, store.create):
        with pytest.raises(StateError, match="No space left on device"):
            write("x", b"data")
    assert not list((tmp_path / "state").iterdir())


def test_what_is_there_and_cannot_be_read_is_damage(store: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "state" / "plan.json").mkdir()
    with pytest.raises(StateError, match=r"plan\.json is damaged: Is a directory") as damaged:
        store.read("plan.json")
    assert damaged.value.code == "CHECKPOINT_CORRUPT"
    store.move("plan.json", "plan.json.damaged")
    assert store.names() == ["plan.json.damaged"]


def test_every_change_is_synced_with_its_folder(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    for change in (
        lambda: store.replace("a", b""), lambda: store.create("b", b""), lambda: store.move("a", "c"),
        lambda: store.delete("b"), lambda: store.clear("c"),
    ):  # fmt: skip
        synced.clear()
        change()
        assert synced[-1] == "state"


def test_clearing_the_last_object_removes_the_folder(store: FolderStore, tmp_path: Path) -> None:
    inside = store.below("q")
    inside.replace("plan.json", b"")
    inside.clear("plan.json")
    assert store.names() == []
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").touch()
    (tmp_path / "state" / "spark").symlink_to(tmp_path / "elsewhere")
    store.clear("spark")
    assert (tmp_path / "elsewhere" / "x").exists(), "the link goes, what it points to stays"
