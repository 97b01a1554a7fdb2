"""`windowpane run` and the commands around it, on real Spark: one example, run, looked at, and ended."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.command_runs import ENDLESS, Runs, results, write_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOISE = ("WARN", "Using incubator", "TransformWithState", "Traceback", "log4j", "BrokenPipe")


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def no_noise(text: str) -> bool:
    return not any(word in text for word in NOISE)


def test_the_example_of_init_runs_is_inspected_and_ends(runs: Runs) -> None:
    assert runs.command("init").returncode == 0

    first = runs.command("run", "--json")
    assert first.returncode == 0, first.stderr
    *batches, end = json_lines(first.stdout)
    assert [batch["batch_id"] for batch in batches] == [0, 1, 2, 3]
    assert sum(batch["rows"] for batch in batches) == end["transforms"]["hot"]["totals"]["in"] == 125
    assert (end["event"], end["outcome"], end["state"]) == ("end", "exhausted", "stopped")
    assert "window_start" in first.stderr, "with --json the console sink's tables go to stderr"
    assert no_noise(first.stdout + first.stderr)

    looked = runs.command("inspect", "--json")
    assert looked.returncode == 0, looked.stderr
    hot = json.loads(looked.stdout)["hot"]
    windows = {item["start_us"] for item in hot["state"] if item["what"] == "window"}
    assert len(windows) >= 1
    assert all(item["end_us"] - item["start_us"] == 10_000_000 for item in hot["state"] if item["what"] == "window")
    assert hot["source_partitions"].keys() == {"bids/0"}

    drained = runs.command("run", "--drain")
    assert drained.returncode == 0, drained.stderr
    assert "adds up: 125 = " in drained.stderr
    assert "is finished" in drained.stderr
    assert "window_start" in drained.stdout
    assert no_noise(drained.stdout + drained.stderr)

    again = runs.command("run")
    assert again.returncode == 1
    assert "[CHECKPOINT_FINISHED]" in again.stderr

    ledger = runs.command("inspect", "--ledger", "2")
    assert "4 end" in ledger.stdout


def started(runs: Runs) -> None:
    """A pipeline that runs and has read rows, now or before it was stopped: then it may still be starting."""
    runs.start()
    runs.until(lambda: runs.batches() > 0 and runs.state() == "running")


def status(runs: Runs) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(runs.command("status", "--json").stdout)
    return found


def test_control_from_another_terminal(runs: Runs) -> None:
    write_pipeline(runs.folder, ENDLESS, key="value % 2")

    started(runs)
    second = runs.command("run")
    assert second.returncode == 1
    assert "[CHECKPOINT_IN_USE]" in second.stderr
    assert "running, process " in runs.command("status").stdout
    assert runs.process is not None
    runs.process.send_signal(signal.SIGINT)
    shown = runs.stopped()
    assert "Stopped." in shown
    assert "start it again to resume" in shown
    assert no_noise(shown)
    before = status(runs)
    assert (before["running"], before["state"]) == (False, "stopped")

    started(runs)
    drained = runs.command("drain", "--timeout", "200")
    assert drained.returncode == 0, drained.stderr
    assert "every open window was emitted" in drained.stdout
    runs.stopped()
    after = status(runs)["transforms"]["t"]
    assert after["totals"]["in"] >= before["transforms"]["t"]["totals"]["in"], "it went on where it had stopped"
    rows = results(runs.folder)
    assert sum(int(str(row["n"])) for row in rows) == after["totals"]["in"], "every row is in one window"
    assert len({(row["window_start"], row["k"]) for row in rows}) == len(rows), "no window came out twice"

    assert runs.command("stop").returncode == 1


def test_spark_that_does_not_start_is_one_line_and_a_log_file(runs: Runs) -> None:
    write_pipeline(
        runs.folder, ENDLESS, key="value % 2",
        more='[spark.config]\n"spark.driver.memory" = "none"',
    )  # fmt: skip
    result = runs.command("run")
    assert result.returncode == 1
    assert "[SPARK_START]" in result.stderr
    assert "state/spark.log" in result.stderr
    assert "Traceback" not in result.stderr
