"""What a running pipeline keeps for the page: the latest rows, windows and events, bounded."""

from __future__ import annotations

import datetime as dt
import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.outbox import PendingBatch
from windowpane.checkpoint.recent import EventLog, RecentFile
from windowpane.checkpoint.status import StatusFile
from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.windows import Hopping, Tumbling
from windowpane.core.windows.ranges import arithmetic_runs
from windowpane.runtime.recent import EVERY_SECONDS, RecentKeeper
from windowpane.runtime.status import Board
from windowpane.spark.gathering import Gathered
from windowpane.spark.recent_rows import KEPT_CLOSED, KEPT_ROWS, RecentRows, bound_runs, shown_rows
from windowpane.spark.unpacking import SideRecords

NO_SPARK = cast("Any", None)
IN_ARROW = Gathered(NO_SPARK, NO_SPARK, [], [], [], [], [])


def runs(*starts: int) -> list[list[int]]:
    return arithmetic_runs(pa.array(starts).to_numpy(), 10)


def test_windows_open_and_close() -> None:
    recent = RecentRows(Tumbling(10).windows())
    recent.note_windows(0, runs(0, 10, 20))
    assert recent.document()["windows"] == [[0, 10, 10, 3]]
    assert not recent.changed
    recent.note_windows(1, [*runs(10, 20), *runs(20, 50)])  # shards share windows
    recent.note_windows(2, runs(20, 50))
    found = recent.document()
    assert found["windows"] == [[20, 30, 30, 2]]
    assert found["closed"] == [[0, 10, 1], [10, 20, 2]]
    recent.note_windows(3, [])
    assert recent.document()["windows"] == []


def test_closed_windows_are_bounded() -> None:
    recent = RecentRows(Tumbling(10).windows())
    for number in range(2 * KEPT_CLOSED):
        recent.note_windows(number, runs(10 * number))
        recent.document()
    assert len(recent.document()["closed"]) == KEPT_CLOSED


def test_windows_whose_keys_are_not_their_starts() -> None:
    windows = Hopping(30, 10).windows()
    recent = RecentRows(windows)
    recent.note_windows(0, runs(-10, 0, 10))
    starts, ends = windows.bounds(pa.array([-10, 0, 10]).to_numpy())
    assert recent.document()["windows"] == bound_runs(list(zip(starts.tolist(), ends.tolist(), strict=True)))


def test_the_last_results_are_kept() -> None:
    recent = RecentRows(before={"results": [{"batch_id": 6, "row": {"n": -1}}]})
    recent.note_results(7, IN_ARROW, pa.table({"n": [1, 2]}))
    assert [each["row"]["n"] for each in recent.document()["results"]] == [-1, 1, 2]
    recent.note_results(8, IN_ARROW, pa.table({"n": list(range(1000))}))
    found = recent.document()["results"]
    assert [each["row"]["n"] for each in found] == list(range(1000 - KEPT_ROWS, 1000))
    assert {each["batch_id"] for each in found} == {8}


def test_values_that_json_or_javascript_cannot_hold() -> None:
    at = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    table = pa.table({
        "at": pa.array([at], pa.timestamp("us", "UTC")), "long": [2**60], "nan": [float("nan")], "none": [None],
        "text": ["x" * 1000], "bytes": [b"\xff"], "money": [Decimal("1.50")], "list": [[1, 2**60]],
        "struct": [{"a": float("inf")}],
    })  # fmt: skip
    (row,) = shown_rows(table)
    json.dumps(row, allow_nan=False)
    assert row["at"].startswith("2024-05-01T12:00:00")
    assert (row["long"], row["nan"], row["none"]) == (str(2**60), "nan", None)
    assert len(row["text"]) == 301
    assert row["money"] == "1.50"
    assert row["list"] == [1, str(2**60)]
    assert row["struct"] == {"a": "inf"}


def test_times_beyond_the_year_9999_do_not_fail() -> None:
    table = pa.table({"at": pa.array([2**62], pa.timestamp("us", "UTC")), "n": [1]})
    assert shown_rows(table)[0]["n"] in (1, "1")


def test_the_last_side_rows_are_kept_with_their_reason() -> None:
    rows = pa.RecordBatch.from_pydict({c.ARRIVAL: pa.array(range(200), pa.int64())})
    batch = side.side_batch("error", side.DECODE, rows, clock_us=0, watermark_us=None)
    recent = RecentRows()
    recent.note_side(SideRecords("p", "t", ("error",), ()), PendingBatch(3, [batch]))
    found = recent.document()["side"]
    assert len(found) == KEPT_ROWS
    assert (found[0]["kind"], found[0]["reason"], found[0]["transform"]) == ("error", side.DECODE, "t")


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def events(store: FolderStore) -> list[tuple[str, str]]:
    return [(each["kind"], each["text"]) for each in EventLog(store).read()]


def test_rows_are_written_once_a_second_at_most(store: FolderStore) -> None:
    now = [100.0]
    keeper = RecentKeeper(store, clock=lambda: now[0])
    recent = RecentRows()
    keeper.keep("t", recent)
    recent.note_results(0, IN_ARROW, pa.table({"n": [1]}))
    keeper.save()
    recent.note_results(1, IN_ARROW, pa.table({"n": [2]}))
    keeper.save()
    assert len(RecentFile(store).read()["t"]["results"]) == 1
    now[0] += EVERY_SECONDS
    keeper.save()
    assert len(RecentFile(store).read()["t"]["results"]) == 2
    assert RecentKeeper(store).before("t")["results"][0]["row"] == {"n": 1}


def test_warnings_and_states_are_events(store: FolderStore) -> None:
    keeper = RecentKeeper(store)
    board = Board(store, None, recent=keeper)
    keeper.listen()
    logging.getLogger("windowpane.sinks").warning("sink `%s` is away", "dlq")
    logging.getLogger("windowpane.sinks").info("not worth an event")
    keeper.close()
    logging.getLogger("windowpane.sinks").warning("too late")
    board.become("running")
    board.become("failed", {"message": "no disk"})
    kinds = [kind for kind, _ in events(store)]
    assert kinds == ["start", "warning", "failed"]
    assert events(store)[1:] == [("warning", "sink `dlq` is away"), ("failed", "no disk")]


def test_warnings_are_printed_once_unless_the_program_has_a_handler(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python prints the warnings of a program that sets up no logging. Two pipelines in it must not change that."""
    logger = logging.getLogger("windowpane")
    monkeypatch.setattr(logger, "propagate", False)  # pytest listens above it
    keepers = [RecentKeeper(store), RecentKeeper(store)]
    for keeper in keepers:
        keeper.listen()
    logging.getLogger("windowpane.run").warning("heard by nobody")
    assert capsys.readouterr().err == "heard by nobody\n"
    monkeypatch.setattr(logger, "handlers", [*logger.handlers, logging.NullHandler()])
    logging.getLogger("windowpane.run").warning("heard by the program")
    assert capsys.readouterr().err == ""
    for keeper in keepers:
        keeper.close()


@pytest.mark.parametrize(
    ("state", "words"), [("running", "process 7 before it ended unexpectedly"), ("stopped", "had stopped")]
)
def test_a_restart_says_how_the_last_run_ended(store: FolderStore, state: str, words: str) -> None:
    StatusFile(store).write(
        {"state": state, "pid": 7, "started_us": 1, "updated_us": 1, "transforms": {}, "error": None}
    )
    RecentKeeper(store).save()
    ((kind, text),) = events(store)
    assert kind == "restart"
    assert words in text


def test_nothing_that_fails_there_reaches_the_pipeline(store: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "recent.json").mkdir()
    keeper, recent = RecentKeeper(store), RecentRows()
    keeper.keep("t", recent)
    recent.note_results(0, IN_ARROW, pa.table({"n": [1]}))
    keeper.save()
    assert [kind for kind, _ in events(store)] == ["start"]
