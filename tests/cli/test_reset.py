"""`windowpane reset`, refusals that need no Spark, and how the command line looks in a pipe."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.cli.app import app
from windowpane.cli.reset import Reset
from windowpane.config import load_pipeline
from windowpane.connectors.tables import table_console
from windowpane.errors import StateError
from windowpane.plan.pipeline import plan_pipeline

PIPELINE = """
[streams.s]
format = "rate"
[options]
shards = 1
[transforms.a]
sql = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)"
sink = "out"
[transforms.b]
sql = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2)"
sink = "out"
[sinks.out]
format = "memory"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two transforms that have run, and something of someone else in the folder of the first."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    config = load_pipeline(tmp_path / "pipeline.toml")
    for plan in plan_pipeline(config):
        checkpoint = Checkpoint(FolderStore(tmp_path / "state" / plan.transform))
        checkpoint.claim(plan, 1)
        checkpoint.finish(3)
        Path(checkpoint.spark).mkdir()
    (tmp_path / "state" / "a" / "mine.txt").write_text("", encoding="utf-8")
    return tmp_path


def windowpane(folder: Path, *args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [args[0], str(folder / "pipeline.toml"), *args[1:]])
    return done.exit_code, done.output


def test_it_asks_first(folder: Path) -> None:
    code, output = windowpane(folder, "reset")
    assert (code, "[NOT_CONFIRMED]" in output) == (2, True)
    assert Checkpoint(FolderStore(folder / "state" / "a")).is_finished()


def test_it_removes_what_is_ours_and_says_so(folder: Path) -> None:
    code, output = windowpane(folder, "reset", "--yes")
    assert code == 0
    assert f"removed {folder}/state/a\nremoved {folder}/state/b\n" in output
    left = {path.name for path in (folder / "state").rglob("*") if path.parent.name != "run.lock.lease"}
    assert left == {"run.lock", "run.lock.lease", "a", "mine.txt"}
    code, output = windowpane(folder, "reset", "--yes")
    assert (code, "[NO_CHECKPOINT]" in output) == (1, True)


def test_one_transform_and_json(folder: Path) -> None:
    code, output = windowpane(folder, "reset", "--transform", "b", "--yes", "--json")
    assert (code, json.loads(output)["removed"]) == (0, ["b"])
    assert Checkpoint(FolderStore(folder / "state" / "a")).is_finished()
    assert windowpane(folder, "reset", "--transform", "c", "--yes")[0] == 1


def test_it_refuses_while_a_process_runs(folder: Path) -> None:
    lock = RunLock(FolderStore(folder / "state"))
    lock.acquire()
    code, output = windowpane(folder, "reset", "--yes")
    lock.release()
    assert (code, "[CHECKPOINT_IN_USE]" in output) == (1, True)


def test_it_tells_of_side_rows_that_would_be_lost(folder: Path) -> None:
    store = FolderStore(folder / "state")
    checkpoint = Checkpoint(store.below("a"))
    store.replace("a/outbox/dlq/000000000001-7.side", b"")
    assert checkpoint.outbox("dlq").pending() == {1: 7}
    assert Reset(store, {"a": checkpoint}).lines() == [
        f"a ({checkpoint.address}): no micro-batch yet, finished, 7 side rows that their sinks have not taken yet"
    ]


@pytest.mark.parametrize("change", ["finished", "other query"])
def test_refusals_of_a_checkpoint_start_no_spark(folder: Path, change: str) -> None:
    if change == "other query":
        for name in "ab":
            (folder / "state" / name / "finished.json").unlink()
        text = PIPELINE.replace("count(*) AS n", "count(*) AS m")
        (folder / "pipeline.toml").write_text(text, encoding="utf-8")
    code, output = windowpane(folder, "run")
    assert code == 1
    assert "windowpane reset" in output
    assert ("[CHECKPOINT_FINISHED]" if change == "finished" else "[CHECKPOINT_OTHER_QUERY]") in output
    assert "starting Spark" not in output
    assert not (folder / "state" / "status.json").exists()


def test_admitting_writes_nothing(tmp_path: Path, folder: Path) -> None:
    plan = plan_pipeline(load_pipeline(folder / "pipeline.toml"))[0]
    assert Checkpoint(FolderStore(tmp_path / "new")).admit(plan, 4) is None
    assert not (tmp_path / "new").exists()
    with pytest.raises(StateError):
        Checkpoint(FolderStore(folder / "state" / "a")).admit(plan, 1)


def test_tables_in_a_pipe_are_whole() -> None:
    text, table, wide = io.StringIO(), Table(), "x" * 300 + " [red]"
    table.add_column("value", overflow="fold")
    table.add_row(wide)
    table_console(text).print(table)
    assert wide in text.getvalue()


def test_help_in_a_pipe_and_completion() -> None:
    command = [sys.executable, "-c", "from windowpane.cli import main; main()"]
    shown = subprocess.run([*command, "run", "--help"], capture_output=True, text=True, check=True).stdout
    assert max(map(len, shown.splitlines())) > 80
    listed = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "--install-completion" in listed
