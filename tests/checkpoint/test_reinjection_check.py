"""Rows that wait to be read again: the queue's files against the ledger, at every start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoint.test_agreement import as_folder, entry
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.reinjection_queue import ReinjectionQueue
from windowpane.errors import StateError

LINE = '{"v":1,"_shard":"s/0","_reinjections":1}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Batches 0 to 2 sent rows back, 2, 3 and 1 of them; batch 2 read those of batch 0."""
    spark, queue = tmp_path / "spark", tmp_path / "re inject" / "s"
    for each in (spark / "offsets", spark / "sources" / "1", queue):
        each.mkdir(parents=True)
    for number, (back, waiting) in enumerate(((2, 2), (3, 5), (1, 4))):
        written = replace(entry(number), reinjected={"late": back}, reinjecting=waiting)
        Ledger(FolderStore(tmp_path / "ledger")).write(written)
        (queue / f"{number:012}.json").write_text(LINE * back)
    (spark / "offsets" / "2").write_text('v1\n{"batchTimestampMs":5}\n{"logOffset":9}\n{"logOffset":0}')
    for number in range(2):  # the second is planned for batch 3
        address = f"file://{queue / f'{number:012}.json'}".replace(" ", "%20")
        log = f'v1\n{{"path":"{address}","timestamp":1,"batchId":{number}}}'
        (spark / "sources" / "1" / str(number)).write_text(log)
    return tmp_path


def check(folder: Path) -> None:
    store = FolderStore(folder)
    ReinjectionQueue(store.below("re inject")).check(Ledger(store.below("ledger")), OffsetLog(store.below("spark")), 2)


def test_files_that_are_read_may_be_there_or_gone(folder: Path) -> None:
    check(folder)
    (folder / "re inject" / "s" / "000000000000.json").unlink()
    check(folder)
    (folder / "re inject" / "s" / "000000000003.json").write_text(LINE)  # of a batch that comes again
    check(folder)


@pytest.mark.parametrize("number", [1, 2])
def test_a_file_that_is_gone_is_named(folder: Path, number: int) -> None:
    path = folder / "re inject" / "s" / f"{number:012}.json"
    path.unlink()
    with pytest.raises(StateError, match="rows wait to be read again, and the ledger has 4") as refused:
        check(folder)
    assert refused.value.code == "CHECKPOINT_CORRUPT"
    assert f"{path} is damaged: it is gone" in refused.value.message


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("[]\n[]\n[]\n"),
        lambda path: path.write_bytes(b"\xff\x00{\n"),
        lambda path: path.write_text((LINE * 3)[:-5]),
        as_folder,
    ],
)
def test_a_damaged_file_is_named(folder: Path, damage: Callable[[Path], object]) -> None:
    path = folder / "re inject" / "s" / "000000000001.json"
    damage(path)
    with pytest.raises(StateError) as refused:
        check(folder)
    assert str(path) in refused.value.message


def test_more_or_fewer_rows_than_the_ledger_has_are_refused(folder: Path) -> None:
    for lines in (LINE * 2, LINE * 4):
        (folder / "re inject" / "s" / "000000000001.json").write_text(lines)
        with pytest.raises(StateError, match=r"re inject is damaged: . rows wait"):
            check(folder)


def test_a_damaged_log_of_the_queue_is_named(folder: Path) -> None:
    path = folder / "spark" / "sources" / "1" / "0"
    path.write_text('v1\n{"path":')
    with pytest.raises(StateError) as refused:
        check(folder)
    assert str(path) in refused.value.message
