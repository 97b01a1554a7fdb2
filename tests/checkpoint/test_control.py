"""Status, requests and the lock, without Spark: what two processes tell each other through a checkpoint."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from windowpane.checkpoint.control import REQUEST_FILE, Requests, ask
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.errors import StateError
from windowpane.runtime.status import RATE_SECONDS, Board

COUNTS = {"in_": 30, "aggregated": 29, "filtered": 0, "late": 1, "error": 0}


def entry(batch_id: int, rows: int = 30) -> Entry:
    counts = COUNTS | {"in_": rows}
    return Entry(batch_id, clock_us=0, watermark_us=5, accounting=counts, totals=counts, results=2, held_by="s/0")


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_one_process_runs_on_a_checkpoint(tmp_path: Path) -> None:
    lock = RunLock(FolderStore(tmp_path))
    lock.acquire()
    with pytest.raises(StateError) as refused:
        RunLock(FolderStore(tmp_path)).acquire()
    assert refused.value.code == "CHECKPOINT_IN_USE"
    assert RunLock(FolderStore(tmp_path)).held()
    lock.release()
    assert not RunLock(FolderStore(tmp_path)).held()
    lock.acquire()
    lock.release()


def test_asking_whether_it_runs_does_not_keep_a_start_out(tmp_path: Path) -> None:
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            RunLock(FolderStore(tmp_path)).held()
            time.sleep(0.001)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        for _ in range(50):
            lock = RunLock(FolderStore(tmp_path))
            lock.acquire()
            lock.release()
    finally:
        stop.set()
        asking.join()


def test_a_request_reaches_the_pipeline_once(tmp_path: Path) -> None:
    lock, board = RunLock(FolderStore(tmp_path)), Board(FolderStore(tmp_path), "pipeline.toml")
    lock.acquire()
    requests = Requests(FolderStore(tmp_path))
    seen: list[object] = []

    def run() -> None:
        while not seen:
            request = requests.take()
            if request is not None:
                seen.extend([request, requests.take()])
            time.sleep(0.01)
        board.become("finished")
        lock.release()

    runner = threading.Thread(target=run)
    runner.start()
    assert ask(FolderStore(tmp_path), "drain", timeout=10) == "finished"
    runner.join()
    assert seen == ["drain", None]


def test_a_request_when_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(StateError) as refused:
        ask(FolderStore(tmp_path), "stop", timeout=1)
    assert refused.value.code == "NOT_RUNNING"


def test_a_pipeline_that_does_not_answer(tmp_path: Path) -> None:
    lock = RunLock(FolderStore(tmp_path))
    lock.acquire()
    with pytest.raises(StateError) as refused:
        ask(FolderStore(tmp_path), "stop", timeout=0.2)
    assert refused.value.code == "NO_ANSWER"
    lock.release()


def test_a_start_forgets_requests_to_the_run_before_and_ones_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / REQUEST_FILE).write_text('{"request": "drain"}', encoding="utf-8")
    requests = Requests(FolderStore(tmp_path))
    requests.forget()
    assert requests.take() is None
    for text in ("{", "[]", '{"request": "dance"}'):
        (tmp_path / REQUEST_FILE).write_text(text, encoding="utf-8")
        assert requests.take() is None
        assert not (tmp_path / REQUEST_FILE).exists()


def test_the_status_file_follows_every_batch(tmp_path: Path) -> None:
    board = Board(FolderStore(tmp_path), "pipeline.toml")
    board.begin("hot", None)
    board.become("running")
    board.note("hot", entry(7))
    status = StatusFile(FolderStore(tmp_path)).read()
    assert status is not None
    assert status["state"] == "running"
    hot = status["transforms"]["hot"]
    assert (hot["batch_id"], hot["totals"]["in"], hot["totals"]["late"], hot["held_by"]) == (7, 30, 1, "s/0")
    assert list(tmp_path.glob("*.tmp")) == []


def test_the_status_is_written_again_after_a_while(tmp_path: Path) -> None:
    clock = FakeClock()
    board = Board(FolderStore(tmp_path), None, clock)
    board.become("running")
    written = json.loads((tmp_path / "status.json").read_text())["updated_us"]
    board.refresh()
    assert json.loads((tmp_path / "status.json").read_text())["updated_us"] == written
    clock.now += 60
    board.refresh()
    assert json.loads((tmp_path / "status.json").read_text())["updated_us"] > written


def test_rows_per_second_forget_what_is_long_ago(tmp_path: Path) -> None:
    clock = FakeClock()
    board = Board(FolderStore(tmp_path), None, clock)
    board.begin("hot", None)
    clock.now += 2
    board.note("hot", entry(0, rows=100))
    assert board.rows_per_second("hot") == pytest.approx(50)
    clock.now += 10 * RATE_SECONDS
    assert board.rows_per_second("hot") == pytest.approx(0, abs=0.1)


def test_a_broken_status_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("{", encoding="utf-8")
    with pytest.raises(StateError) as broken:
        StatusFile(FolderStore(tmp_path)).read()
    assert broken.value.code == "CHECKPOINT_CORRUPT"
    assert "status.json" in broken.value.message
