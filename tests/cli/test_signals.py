"""Signals as terminals, `timeout` and service managers send them: a stop in order, at any moment of a run."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.command_runs import Runs, feed, results, write_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS = 24, 200
TIMES = [[file * 5 + row % 5 for row in range(ROWS)] for file in range(FILES)]


@pytest.fixture
def pipeline(runs: Runs) -> Runs:
    write_pipeline(runs.folder)
    for number, times in enumerate(TIMES):
        feed(runs.folder, number, times)
    return runs


def expected() -> Counter[tuple[int, int]]:
    return Counter((ts // 2 * 2, row % 7) for times in TIMES for row, ts in enumerate(times))


def written(folder: Path) -> Counter[tuple[int, int]]:
    """What the sink has; a window that came out twice counts twice."""
    found: Counter[tuple[int, int]] = Counter()
    for row in results(folder):
        start = time.strptime(str(row["window_start"])[:19], "%Y-%m-%dT%H:%M:%S")
        found[(start.tm_min * 60 + start.tm_sec, int(str(row["k"])))] += int(str(row["n"]))
    return found


def test_every_signal_is_a_stop_in_order(pipeline: Runs) -> None:
    runs = pipeline
    for number, seconds in ((signal.SIGTERM, 0.0), (signal.SIGINT, 1.5), (signal.SIGTERM, 3.5)):
        runs.start()
        assert runs.process is not None
        assert runs.process.stderr is not None
        assert runs.process.stderr.readline() == "starting Spark …\n"
        time.sleep(seconds)
        runs.signal_group(number)
        assert "topped" in runs.stopped()

    runs.start()
    runs.until(lambda: runs.batches() >= 2)
    runs.signal_group(signal.SIGTERM)
    time.sleep(0.1)
    runs.signal_group(signal.SIGTERM)  # `timeout` signals the process and then its group
    assert "Stopped." in runs.stopped()

    runs.start()
    had = runs.batches()
    runs.until(lambda: runs.batches() >= had + 2)
    for pid in runs.marked():  # as systemd does, to everything in the service
        os.kill(pid, signal.SIGTERM)
    assert "Stopped." in runs.stopped()

    runs.start()
    had = runs.batches()
    runs.until(lambda: runs.batches() >= had + 2)
    (runs.folder / "state/control.json").write_text('{"request": "drain"}')
    runs.until(lambda: runs.state() == "draining")
    runs.signal_group(signal.SIGTERM)
    assert "Stopped." in runs.stopped()
    assert runs.batches() < FILES, "the signal came after all"
    assert runs.state() == "stopped"

    for number in (signal.SIGTERM, signal.SIGINT):  # while it waits for input
        runs.start()
        runs.until(lambda: runs.state() == "running" and runs.batches() == FILES)
        time.sleep(3)
        runs.signal_group(number)
        assert "Stopped." in runs.stopped()
        assert (runs.state(), runs.batches()) == ("stopped", FILES)

    runs.start("--drain")
    assert "is finished" in runs.stopped()
    assert written(runs.folder) == expected()
