"""Side rows that wait for their sinks: the files of the outbox against the ledger, at every start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.checkpoint.test_agreement import entry
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.checkpoint.outbox_check import check_outbox
from windowpane.checkpoint.outbox_files import COUNT_FILE
from windowpane.checkpoint.result_outbox import WaitingResults
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    """Batches 0 to 3 put rows into the outbox, 2, 3, none and 1 of them; those of batch 0 are delivered."""
    outbox = Outbox(FolderStore(tmp_path / "outbox" / "dlq"))
    for number, rows in enumerate((2, 3, 0, 1)):
        if rows:
            outbox.put(PendingBatch(number, [], ["{}"] * rows))
        if number == 0:
            outbox.note_delivered(0, rows)
        Ledger(FolderStore(tmp_path / "ledger")).write(
            replace(entry(number), outbox={"dlq": outbox.handed_over(number) or 0})
        )
    return outbox


def look(folder: Path, committed: int = 3) -> None:
    checkpoint = Checkpoint(FolderStore(folder))
    check_outbox(checkpoint.ledger, checkpoint.outbox, committed, lambda entry: entry.outbox)


def test_rows_of_the_outbox_may_be_delivered_set_aside_or_come_again(tmp_path: Path, outbox: Outbox) -> None:
    look(tmp_path)
    look(tmp_path, committed=2)
    outbox.set_aside(1, 3)
    next(Path(outbox.address()).glob("*.damaged")).unlink()
    look(tmp_path)
    outbox.note_delivered(3, 1)
    look(tmp_path)
    look(tmp_path, committed=2)
    outbox.put(PendingBatch(3, [], ["{}"]))
    assert outbox.handed_over(3) == 6
    look(tmp_path)


def test_a_delivery_that_was_cut_short_is_counted_once(tmp_path: Path, outbox: Outbox) -> None:
    kept = Path(outbox.address_of(1, 3, 0)).read_bytes()
    outbox.note_delivered(1, 3)
    Path(outbox.address_of(1, 3, 0)).write_bytes(kept)
    look(tmp_path)


@pytest.mark.parametrize(("number", "rows"), [(1, 3), (3, 1)])
def test_a_file_that_is_gone_from_the_outbox_is_named(tmp_path: Path, outbox: Outbox, number: int, rows: int) -> None:
    Path(outbox.address_of(number, rows, 0)).unlink()
    with pytest.raises(StateError, match=r"ledger has 6 side rows for sink `dlq`, and . are delivered or wait") as gone:
        look(tmp_path)
    assert gone.value.code == "CHECKPOINT_CORRUPT"
    assert f"{outbox.address_of(number, rows, 0)} is damaged: it is gone" in gone.value.message
    Path(outbox.address(COUNT_FILE)).write_text(f'{{"rows": 2, "batch_id": 0, "lost": {rows}}}')
    look(tmp_path)  # as the hint says


def test_results_that_are_gone_are_noticed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(FolderStore(tmp_path))
    outbox = checkpoint.result_outbox("pg")
    for number in range(2):
        table = pa.table({"v": [1, 2]})
        outbox.put(
            WaitingResults(
                batch_id=number, since_us=7, columns="{}", run="r", identified=False, was_unnamed=False, table=table
            )
        )
        checkpoint.ledger.write(replace(entry(number), result_outbox={"pg": outbox.handed_over(number) or 0}))
    check_outbox(checkpoint.ledger, checkpoint.result_outbox, 1, lambda entry: entry.result_outbox)
    next(Path(outbox.address()).glob("000000000000-*.arrow")).unlink()
    with pytest.raises(
        StateError, match=r"000000000000-2-\*-0\.arrow is damaged: it is gone: the ledger has 4 results"
    ):
        check_outbox(checkpoint.ledger, checkpoint.result_outbox, 1, lambda entry: entry.result_outbox)


def test_a_count_of_deliveries_that_is_gone_is_noticed(tmp_path: Path, outbox: Outbox) -> None:
    Path(outbox.address(COUNT_FILE)).unlink()
    with pytest.raises(StateError, match="and 4 are delivered or wait"):
        look(tmp_path)


def test_ledgers_of_earlier_versions_say_nothing_of_the_outbox(tmp_path: Path) -> None:
    Ledger(FolderStore(tmp_path / "ledger")).write(entry(3))
    look(tmp_path)
