"""A checkpoint whose parts are not of one moment, or are damaged, is refused by name, before Spark starts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from windowpane.checkpoint.agreement import check_agreement
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError

COUNTS = {"in_": 3, "buffered": 0}


def entry(batch_id: int) -> Entry:
    return Entry(batch_id, clock_us=0, watermark_us=None, accounting=COUNTS, totals=COUNTS, results=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A transform's folder after three micro-batches, as a run leaves it."""
    spark = tmp_path / "spark"
    for name in ("offsets", "commits", "sources/0"):
        (spark / name).mkdir(parents=True)
    (spark / "metadata").write_text('{"id":"4b1c"}')
    (tmp_path / "plan.json").write_text('{"format": 1, "plan_id": "p", "sql": "SELECT", "shards": 2}')
    for number in range(3):
        Ledger(FolderStore(tmp_path / "ledger")).write(entry(number))
        (spark / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":5}}\n{{"logOffset":{number}}}\n-')
        (spark / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (spark / "sources" / "0" / str(number)).write_text(f'v1\n{{"path":"f","timestamp":1,"batchId":{number}}}')
    return tmp_path


def check(folder: Path) -> None:
    checkpoint = Checkpoint(FolderStore(folder))
    check_agreement(checkpoint.log, checkpoint.ledger, checkpoint.plan)
    checkpoint.record()


def test_what_a_run_leaves_is_taken(folder: Path) -> None:
    check(folder)
    (folder / "spark" / "commits" / "2").unlink()
    check(folder)
    (folder / "ledger" / "000000000002.json").unlink()
    check(folder)
    (folder / "spark" / "offsets" / "2").unlink()
    check(folder)


@pytest.mark.parametrize(
    "gone",
    [
        "ledger/000000000002.json", "ledger/000000000001.json", "ledger/000000000000.json",
        "spark/offsets/2", "spark/sources/0/2", "spark/metadata", "plan.json", "ledger", "spark/offsets",
        "spark/commits", "spark/sources", "spark",
    ],
)  # fmt: skip
def test_a_part_that_is_gone_is_named(folder: Path, gone: str) -> None:
    path = folder / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StateError) as refused:
        check(folder)
    assert refused.value.code == "CHECKPOINT_CORRUPT"
    assert str(folder) in refused.value.message
    assert refused.value.hint


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "list": lambda path: path.write_text("[]"),
    "null": lambda path: path.write_text("null"),
    "garbage": lambda path: path.write_bytes(b"\xff\x00\xfe{"),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "nested": lambda path: path.write_text("[" * 100_000),
    "folder": as_folder,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_every_damaged_part_is_named(folder: Path, how: str) -> None:
    current = [path for path in sorted(folder.rglob("*")) if path.is_file() and _matters(path)]
    assert len(current) == 6
    for path in current:
        kept = path.read_bytes()
        DAMAGE[how](path)
        with pytest.raises(StateError) as refused:
            check(folder)
        assert refused.value.code == "CHECKPOINT_CORRUPT"
        assert str(path) in refused.value.message
        path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(kept)
    check(folder)


def _matters(path: Path) -> bool:
    """What a start reads: the last of each log."""
    return not path.stem.isdigit() or int(path.stem) == 2


@pytest.mark.parametrize(
    "change", [{"batch_id": 1}, {"totals": None}, {"totals": {"in_": "3"}}, {"results": True}, {"beyond": 1}]
)
def test_an_entry_of_another_shape_is_refused(folder: Path, change: dict[str, object]) -> None:
    path = folder / "ledger" / "000000000002.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StateError, match=r"000000000002\.json is damaged"):
        Checkpoint(FolderStore(folder)).ledger.read(2)


def test_files_are_synced_with_their_folder_and_take_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    really = os.fsync

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        really(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    tmp_path.chmod(0o700)
    Ledger(FolderStore(tmp_path / "ledger")).write(entry(0))
    written = tmp_path / "ledger" / "000000000000.json"
    assert [Path(path).name.partition(".json")[0].lstrip(".") for path in synced] == [
        tmp_path.name,
        "000000000000",
        "ledger",
    ]
    assert (written.stat().st_mode & 0o777, written.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_full_disk_is_one_error_and_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match=r"plan\.json: No space left on device") as refused:
        FolderStore(tmp_path).replace("plan.json", b"{}")
    assert refused.value.code == "STATE"
    assert not list(tmp_path.iterdir())
