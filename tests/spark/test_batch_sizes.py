"""On a backlog micro-batches grow, by beginning the query again; what comes out and the accounting stay as they are."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import EVENT_TIME, FIRST_FILE_TIME, write_json
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.status import read_status
from windowpane.connectors.limits import FILE_BYTES
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline, RunningPipeline, sizing
from windowpane.runtime.resizing import SIZE_FILE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MOVING, FIXED = ("moving",), "fixed"
QUERY = "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM {} WHERE v <> 3 GROUP BY tumblingwindow('ss', 10), k"
FILE_ROWS, FIXED_FILES, START = 20, 10, 2 * 10**6
BEFORE, AFTER = 40, 30
"""Files of the first run and of the second."""


def feed(folder: Path, first: int, files: int) -> int:
    """Files of five seconds each. From the tenth on, one row each is too late for any window, however batches are cut.

    Gives the size of a file.
    """
    for number in range(first, first + files):
        rows = [{"k": f"k{each % 3}", "v": each, "ts": START + number * 5000 + each * 250} for each in range(FILE_ROWS)]
        rows[-1] |= {"ts": 10**6} if number >= FIXED_FILES else {}
        path = folder / f"{number:04}.json"
        write_json(path, rows)
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    return (folder / f"{first:04}.json").stat().st_size


def settings(trigger: str) -> dict[str, Any]:
    stream = {"format": "json", "path": "data", "schema": "k STRING, v BIGINT, ts BIGINT", "eventtime": EVENT_TIME}
    own: dict[str, dict[str, Any]] = {
        "moving": {},
        FIXED: {"scan": "spark", "options": {"maxFilesPerTrigger": FIXED_FILES}},
    }
    return {
        "streams": {f"{name}_rows": stream | extra for name, extra in own.items()},
        "options": {
            "eventtime": {"enabled": True}, "trigger": trigger, "shards": 2, "checkpoint": "state",
            "batch_target": "2m",
        },
        "transforms": {name: {"sql": QUERY.format(f"{name}_rows"), "sink": name} for name in own},
        "sinks": {name: {"format": "memory"} for name in own},
    }  # fmt: skip


class World:
    """A pipeline of two transforms with the same query over the same files, read by workers and by Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sinks = {name: MemorySink(name) for name in (*MOVING, FIXED)}

    def start(self, spark: SparkSession, trigger: str) -> RunningPipeline:
        return Pipeline.from_dict(settings(trigger), self.folder, sinks=self.sinks).start(spark)

    def remember(self, scale: float) -> None:
        for name in (*MOVING, FIXED):
            path = self.folder / "state" / name / SIZE_FILE
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"format": 1, "scale": scale}), encoding="utf-8")

    def entries(self, running: RunningPipeline, name: str) -> list[Entry]:
        [ledger] = [each.checkpoint.ledger for each in running.transforms if each.plan.transform == name]
        return [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]

    def files(self, running: RunningPipeline, name: str) -> list[int]:
        """How many each micro-batch took."""
        return [entry.accounting["in_"] // FILE_ROWS for entry in self.entries(running, name) if not entry.final]

    def results(self, name: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.sinks[name].rows)


def test_batches_grow_on_a_backlog_and_nothing_else_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sizing, "FLOOR", 0.0)
    caplog.set_level(logging.INFO, "windowpane.run")
    world = World(tmp_path)
    size = feed(tmp_path / "data", 0, BEFORE)
    world.remember(2.5 * size / FILE_BYTES)

    running = world.start(spark, "available_now")
    deadline = time.monotonic() + 180
    while running.active and time.monotonic() < deadline:  # nobody waits for it, and it is begun again all the same
        time.sleep(0.1)
    assert running.wait(60)
    running.stop()
    grown = {name: world.files(running, name) for name in MOVING}
    for name, files in grown.items():
        assert sum(files) == BEFORE
        assert files[:3] == [2, 2, 2]
        assert max(files) >= 8, f"{name}: {files}"
        assert len(files) < BEFORE / 2
    assert world.files(running, FIXED) == [FIXED_FILES] * (BEFORE // FIXED_FILES)
    assert "micro-batch on the backlog took" in caplog.text
    assert "BeginAgain" not in caplog.text

    status = read_status(tmp_path / "state")
    assert status is not None
    limits = {name: told.get("batch_limit") for name, told in status["transforms"].items()}
    assert limits[FIXED] is None
    for name in MOVING:
        told = limits[name]
        assert told["target_us"] == 120_000_000
        assert told["bytes"] // size >= max(grown[name])
        assert told["changed"]["from"]["bytes"] < told["bytes"]
        assert (
            json.loads((tmp_path / "state" / name / SIZE_FILE).read_text(encoding="utf-8"))["scale"]
            > 8 * size / FILE_BYTES
        )

    feed(tmp_path / "data", BEFORE, AFTER)
    again = world.start(spark, "as_fast_as_possible")
    again.wait(3)
    again.drain()
    for name in MOVING:
        after = world.files(again, name)[len(grown[name]) :]
        assert sum(after) == AFTER
        assert after[0] >= 8, "the limit is remembered"
        assert world.results(name) == world.results(FIXED)
        assert len(world.results(name)) == 3 * (BEFORE + AFTER) // 2
        ours, theirs = (world.entries(again, each)[-1].totals for each in (name, FIXED))
        assert {kind: count for kind, count in ours.items() if count} == {
            "in_": (BEFORE + AFTER) * FILE_ROWS,
            "aggregated": (BEFORE + AFTER) * (FILE_ROWS - 2) + FIXED_FILES,
            "filtered": BEFORE + AFTER,
            "late": BEFORE + AFTER - FIXED_FILES,
        }
        assert ours == theirs
