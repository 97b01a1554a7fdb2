"""`windowpane rescale` where it needs no Spark: what it refuses, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.cli import rescale
from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.rescaling import Rescale, Rescaled
from windowpane.spark.rescaling import ShardSize

PIPELINE = """
[streams.s]
format = "rate"
[options]
shards = 2
[transforms.a]
sql = "SELECT value, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1), value"
sink = "out"
[sinks.out]
format = "memory"
"""
DONE = Rescaled(
    "a", 2, 1, "by value",
    before=[ShardSize(1, 0, 3, 1000), ShardSize(1, 1, 4, 2000)],
    after=[ShardSize(1, 0, 5, 2500, seen=1234, taken=1234)],
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


def claim(folder: Path) -> Checkpoint:
    """A checkpoint that has not run a micro-batch."""
    (plan,) = plan_pipeline(load_pipeline(folder / "pipeline.toml"))
    checkpoint = Checkpoint(FolderStore(folder / "state/a"))
    checkpoint.claim(plan, 2)
    return checkpoint


def windowpane(folder: Path, *args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["rescale", str(folder / "pipeline.toml"), *args])
    return done.exit_code, done.output


def test_there_is_nothing_to_rescale(folder: Path) -> None:
    code, output = windowpane(folder, "--shards", "4")
    assert (code, "[NO_CHECKPOINT]" in output, "set options `shards = 4`" in output) == (1, True, True)


def test_it_refuses_while_a_process_runs(folder: Path) -> None:
    claim(folder)
    lock = RunLock(FolderStore(folder / "state"))
    lock.acquire()
    code, output = windowpane(folder, "--shards", "4")
    lock.release()
    assert (code, "[CHECKPOINT_IN_USE]" in output, "windowpane stop" in output) == (1, True, True)


def test_it_refuses_a_finished_checkpoint(folder: Path) -> None:
    claim(folder).finish(3)
    code, output = windowpane(folder, "--shards", "4")
    assert (code, "[CHECKPOINT_FINISHED]" in output) == (1, True)


def test_the_same_number_changes_nothing(folder: Path) -> None:
    claim(folder)
    assert windowpane(folder, "--shards", "2") == (0, "a: already has 2 shards\n")


def test_what_it_prints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rescale, "carry_out", lambda _: [DONE])
    code, output = windowpane(folder, "--shards", "1")
    lines = [line.strip("│ ") for line in output.splitlines()]
    assert (code, lines[0]) == (0, "a: has 1 shard instead of 2 (shards: by value)")
    shown = [
        [cell.strip() for cell in line.split("│")] for line in lines if line.startswith(("before", "after", "all"))
    ]
    assert shown == [
        ["before", "1", "0", "3", "", "1,000"],
        ["before", "1", "1", "4", "", "2,000"],
        ["after", "1", "0", "5", "1,234", "2,500"],
        ["all rows, once", "", "", "", "1,234"],
    ]
    assert lines[-1] == "Set `shards = 1` under [options] now: the file has 2."
    assert "a: would get 1 shard" in windowpane(folder, "--shards", "1", "--dry-run")[1]
    described = json.loads(windowpane(folder, "--shards", "1", "--json")[1])["transforms"]["a"]
    assert described["after"] == [{"stage": 1, "shard": 0, "entries": 5, "bytes": 2500, "rows": 1234}]


def test_a_checkpoint_without_state_gets_no_table() -> None:
    empty = Rescaled("a", 2, 4, "by value")
    assert rescale._as_text(empty, dry_run=False).endswith("; no micro-batch has left state yet")
