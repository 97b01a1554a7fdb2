"""Savepoints of a pipeline that runs in another process, without Spark: who takes them, and what a kill leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.checkpoint.checkpoints import make_checkpoint
from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint import questions
from windowpane.checkpoint.control import REQUEST_FILE, Requests, SavepointRequest
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_asking import get_savepoint
from windowpane.checkpoint.savepoint_taking import take_savepoint
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.errors import StateError
from windowpane.runtime.batch_gate import GIVEN_UP, BatchGate
from windowpane.runtime.running import RunningPipeline
from windowpane.runtime.supervision import supervise

DIES = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import take_savepoint

def standstill(job):
    if job == "hot":  # the second one: half of the savepoint is there
        os.kill(os.getpid(), signal.SIGKILL)
    return nullcontext()

take_savepoint(RunLock(FolderStore(Path(sys.argv[1]))).acquire(), "cut", standstill)
"""


class Run:
    """A running pipeline as `supervise` sees it. Its micro-batches take as long as `busy` is set."""

    def __init__(self, store: MemoryStore) -> None:
        self.lock = RunLock(store)
        self.store, self.gate, self.busy = self.lock.acquire(), BatchGate(), threading.Event()
        self.jobs = [SimpleNamespace(checkpoint=SimpleNamespace(job_address=self.store.address("hot")), gate=self.gate)]
        self.board = SimpleNamespace(refresh=lambda: None, recent=None)
        self.stopping, self.done = threading.Event(), threading.Event()
        self.batches = 0
        for target in (self._run, self._supervise):
            threading.Thread(target=target, daemon=True).start()

    def _run(self) -> None:
        while not self.done.is_set():
            with self.gate.batch():
                while self.busy.is_set() and not self.done.is_set():
                    time.sleep(0.005)
                self.batches += 1
            time.sleep(0.001)

    def _supervise(self) -> None:
        supervise(cast("Any", self), Requests(self.store), asked_to_stop=self.stopping, drain=False, tick=lambda: None)

    savepoint = RunningPipeline.savepoint

    def finish_repairs(self, give_up: Any) -> dict[str, list[int]]:
        return {}

    def failure(self, failed: StateError) -> StateError:
        return failed

    def wait(self, seconds: float) -> bool:
        return self.stopping.wait(min(seconds, 0.01))

    def stop(self) -> None:
        self.done.set()
        self.lock.release()


def test_a_running_pipeline_takes_it_between_two_micro_batches() -> None:
    store = MemoryStore()
    make_checkpoint(store, 3)
    run = Run(store)
    assert get_savepoint(store, "x", 60).fence == 1, "taken by the process that holds the lease"
    with pytest.raises(StateError) as taken:
        get_savepoint(store, "x", 60)
    assert taken.value.code == "SAVEPOINT_EXISTS"
    run.busy.set()
    with pytest.raises(StateError) as busy:
        get_savepoint(store, "y", 0.3)
    assert busy.value.code == "NO_ANSWER"
    assert not store.exists(REQUEST_FILE)
    run.busy.clear()
    before = run.batches
    get_savepoint(store, "z", 60)
    time.sleep(0.05)
    assert run.batches > before, "the gate is open again"
    run.stopping.set()


def test_of_a_pipeline_that_stops_first_the_command_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_LOOK_SECONDS", 0.1)
    store = MemoryStore()
    make_checkpoint(store, 3)
    run = Run(store)
    run.busy.set()
    threading.Timer(0.2, run.stopping.set).start()
    assert get_savepoint(store, "x", 60).fence == 2


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    make_checkpoint(store, 1)
    make_checkpoint(store, 1, "cold")
    killed = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert store.exists("savepoints/cut/1/cold/plan.json")
    assert Savepoints(store).all() == []
    lock = RunLock(store)
    taken = take_savepoint(lock.acquire(), "cut")
    lock.release()
    assert taken.fence == 2
    assert store.below("savepoints/cut").names() == ["2", "savepoint.json"]
    Savepoints(store).check(taken)


def test_requests_to_end_come_first_and_answers_are_found_by_their_id() -> None:
    requests = Requests(MemoryStore())
    asked, other = SavepointRequest("x", "1"), SavepointRequest("x", "2")
    assert requests.put_question(asked)
    assert not requests.put_question(other)
    assert not requests.asks_to_end()
    requests.put("stop")
    assert requests.asks_to_end()
    assert requests.take() == "stop"
    assert requests.put_question(other)
    assert requests.take() == other
    requests.answer(other, {"code": "X"})
    assert requests.answered(asked) is None
    assert requests.answered(other) == {"error": {"code": "X"}}
    requests.withdraw(other)
    assert requests.answered(other) is None


def test_a_gate_that_is_given_up_opens() -> None:
    gate = BatchGate()
    with gate.batch(), pytest.raises(StateError) as given_up, gate.closed(lambda: True):
        pass
    assert given_up.value.code == GIVEN_UP
    with gate.batch():
        pass
    with gate.closed(lambda: False):
        pass
