"""`windowpane savepoint`, `savepoints`, `run --from` and `reset --to`, as far as they need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.checkpoint.checkpoints import write_batch
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.checkpoint.repairs import RepairRecord, Repairs
from windowpane.checkpoint.restoring import MARK, Origin, mark
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.checkpoint.transform import Checkpoint
from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.errors import WindowpaneError
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.savepoints import GoingBack, find_origin, start_from, with_checkpoint

PIPELINE = """
[streams.s]
format = "json"
path = "in"
schema = "k BIGINT, ts TIMESTAMP"
eventtime.column = "ts"
[options]
eventtime.enabled = true
shards = 1
[transforms.hot]
sql = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1), k"
sink = ["out", "topic"]
side_output.error = { sink = "errors" }
[sinks.out]
format = "parquet"
path = "out"
[sinks.errors]
format = "json"
path = "out"
[sinks.topic]
format = "console"
"""
RUN, OTHER = "0a0b0c0d-0000-4000-8000-00000000000a", "0a0b0c0d-0000-4000-8000-00000000000b"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A transform that has run three batches, and what its sinks have got."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    store = FolderStore(tmp_path / "state")
    (plan,) = plan_pipeline(load_pipeline(tmp_path / "pipeline.toml"))
    PlanFile(store.below("hot")).create(PlanRecord.of(plan, 1))
    for batch_id in range(3):
        write_batch(store, "hot", batch_id)
    store.replace("hot/spark/metadata", json.dumps({"id": RUN}).encode())
    (tmp_path / "out").mkdir()
    for whose, run in (("hot", RUN), ("hot.side", RUN), ("hot", OTHER), ("cold", RUN)):
        for batch_id in range(5):
            (tmp_path / "out" / f"part-{whose}-{run}-{batch_id:012}-00000.json").write_text("", encoding="utf-8")
    return tmp_path


def windowpane(folder: Path, *args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [args[0], str(folder / "pipeline.toml"), *args[1:]])
    return done.exit_code, done.output


def test_it_is_taken_listed_and_removed(folder: Path) -> None:
    code, output = windowpane(folder, "savepoint", "monday", "--checkpoint", str(folder / "nothing"))
    assert (code, "[NO_CHECKPOINT]" in output) == (1, True)
    assert not (folder / "nothing").exists()
    assert windowpane(folder, "savepoints")[1].startswith("no savepoints in")
    code, output = windowpane(folder, "savepoint", "monday")
    assert code == 0, output
    assert "  hot: batch 2, planned at 1970-01-01 00:00:02" in output
    assert windowpane(folder, "savepoint", "monday")[1].startswith("[SAVEPOINT_EXISTS]")
    code, output = windowpane(folder, "savepoints")
    assert "monday" in output
    (listed,) = json.loads(windowpane(folder, "savepoints", "--json")[1])
    assert listed["name"] == "monday"
    assert listed["jobs"]["hot"] == {"batch_id": 2, "clock_us": 2_000_000, "watermark_us": 1_000_000, "rows": 9}
    assert listed["bytes"] > 0
    assert windowpane(folder, "savepoint", "monday", "--delete") == (0, "removed savepoint monday\n")
    code, output = windowpane(folder, "savepoint", "monday", "--delete")
    assert (code, "[NO_SAVEPOINT]" in output) == (1, True)
    assert windowpane(folder, "savepoint", "a", "b")[0] == 2


def test_another_checkpoint_starts_from_it_and_one_that_is_there_does_not(folder: Path) -> None:
    windowpane(folder, "savepoint", "monday")
    given = load_pipeline(folder / "pipeline.toml")
    code, output = windowpane(folder, "run", "--from", "monday")
    assert (code, "[CHECKPOINT_NOT_EMPTY]" in output) == (1, True)
    assert "reset --to" in output
    code, output = windowpane(folder, "run", "--from", "tuesday", "--checkpoint", str(folder / "trial"))
    assert (code, "[NO_SAVEPOINT]" in output) == (1, True)
    for number, name in enumerate(("monday", f"{folder}/state/monday")):
        config = with_checkpoint(given, str(folder / f"trial-{number}"))
        start_from(find_origin(name, given), config, plan_pipeline(config))
        there = Checkpoint(FolderStore(folder / f"trial-{number}" / "hot"))
        assert there.log.last_committed() == 2
        assert there.log.run_id() != RUN


def test_a_savepoint_of_another_query_or_of_other_transforms_is_refused(folder: Path) -> None:
    windowpane(folder, "savepoint", "monday")
    for change, code in (
        (("count(*) AS n", "sum(k) AS n"), "CHECKPOINT_OTHER_QUERY"),
        (("[transforms.hot]", "[transforms.cold]"), "SAVEPOINT_OTHER_TRANSFORMS"),
        (("shards = 1", "shards = 2"), "CHECKPOINT_SHARDS"),
    ):
        (folder / "pipeline.toml").write_text(PIPELINE.replace(*change), encoding="utf-8")
        exit_code, output = windowpane(folder, "run", "--from", "monday", "--checkpoint", str(folder / "trial"))
        assert (exit_code, f"[{code}]" in output) == (1, True), output
        assert not (folder / "trial").exists()


def test_a_restore_that_was_cut_short_starts_nothing_until_it_is_repeated_or_reset(folder: Path) -> None:
    windowpane(folder, "savepoint", "monday")
    store, trial = FolderStore(folder / "state"), FolderStore(folder / "trial")
    mark(trial, Origin(store, Savepoints(store).find("monday")), {"command": "run --from"})
    trial.replace("hot/spark/offsets/0", b"v1")
    place = ("--checkpoint", str(folder / "trial"))
    code, output = windowpane(folder, "run", *place)
    assert (code, "[RESTORE_CUT_SHORT]" in output) == (1, True)
    assert windowpane(folder, "reset", *place, "--yes")[0] == 0
    assert not trial.exists(MARK)
    assert not trial.exists("hot/spark")


def test_going_back_takes_back_what_came_after_from_sinks_that_deliver_once(folder: Path) -> None:
    windowpane(folder, "savepoint", "monday")
    write_batch(FolderStore(folder / "state"), "hot", 3)
    for whose in (f"hot-{RUN}", f"cold-{RUN}"):
        (folder / "out" / f"_staging-{whose}-000000000003-1").mkdir()
    code, output = windowpane(folder, "reset", "--to", "monday", "--transform", "hot", "--yes")
    assert (code, "[BAD_OPTION]" in output) == (2, True)
    assert windowpane(folder, "reset", "--keep-results", "--yes")[0] == 2
    code, output = windowpane(folder, "reset", "--to", "monday", "--yes")
    assert code == 0, output
    assert "sink `out` (parquet): removed 2 files with results of hot after batch 2" in output
    assert "sink `errors` (json): removed 5 files with side rows of hot after batch -1" in output
    assert "sink `topic` (console) keeps its results of hot after batch 2: they come again" in output
    left = sorted(path.name for path in (folder / "out").iterdir())
    assert [name for name in left if name.startswith("_staging")] == [f"_staging-cold-{RUN}-000000000003-1"]
    left = [name for name in left if name.startswith("part-")]
    assert len([name for name in left if name.startswith(f"part-hot-{RUN}")]) == 3
    assert len([name for name in left if OTHER in name or "cold" in name]) == 10
    there = Checkpoint(FolderStore(folder / "state/hot"))
    assert there.ledger.batch_ids() == [0, 1, 2]
    second = there.log.run_id()
    assert second != RUN

    # What the second run has written goes too, and what the first one had written before stays gone.
    (folder / "out" / f"part-hot-{second}-000000000003-00000.json").write_text("", encoding="utf-8")
    (folder / "out" / f"part-hot-{RUN}-000000000004-00000.json").write_text("", encoding="utf-8")
    code, output = windowpane(folder, "reset", "--to", "monday", "--yes", "--json")
    assert [each["count"] for each in json.loads(output)["sinks"]] == [2, None, 0]


def test_going_back_takes_back_repairs_that_came_after(folder: Path) -> None:
    repairs, none = Repairs(FolderStore(folder / "state" / "hot" / "repairs")), pa.table({"x": [1]})
    for number in range(3):
        repairs.begin(RepairRecord(number, "done", 1, {"late": 1}, [f"dlq:{number}:1"], 1, 1), none, none)
        name = f"part-hot.repair-{RUN}-{number:012}-00000.parquet"
        (folder / "out" / name).write_text("", encoding="utf-8")
        if not number:
            windowpane(folder, "savepoint", "monday")
    code, output = windowpane(folder, "reset", "--to", "monday", "--yes")
    assert code == 0, output
    assert "sink `out` (parquet): removed 2 files with results of repairs of hot after 0" in output
    assert [path.name[-21:-14] for path in (folder / "out").glob("part-hot.repair-*")] == ["0000000"]
    assert [record.number for record in repairs.all()] == [0]


def test_going_back_behind_repairs_that_have_replaced_results_is_refused(folder: Path) -> None:
    """A table has the corrected result only. What was there before would be missing."""
    file = folder / "pipeline.toml"
    table = '[sinks.out]\nformat = "duckdb"\noptions.table = "hot"\npath = "out.db"'
    file.write_text(PIPELINE.replace('[sinks.out]\nformat = "parquet"\npath = "out"', table), encoding="utf-8")
    windowpane(folder, "savepoint", "monday")
    repairs, none = Repairs(FolderStore(folder / "state" / "hot" / "repairs")), pa.table({"x": [1]})
    repairs.begin(RepairRecord(0, "done", 1, {"late": 1}, ["dlq:0:1"], 1, 1), none, none)
    code, output = windowpane(folder, "reset", "--to", "monday", "--yes")
    assert (code, "[REPAIRS_SINCE]" in output) == (1, True)
    assert windowpane(folder, "reset", "--to", "monday", "--keep-results", "--yes")[0] == 0


def test_going_back_that_was_cut_short_is_repeated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windowpane(folder, "savepoint", "monday")
    config = load_pipeline(folder / "pipeline.toml")
    going = GoingBack.planned(config, plan_pipeline(config), "monday", keeps_results=False)

    def die(*_given: object, **_named: object) -> None:
        raise WindowpaneError("DIED", "in the middle")

    with monkeypatch.context() as patched:
        patched.setattr("windowpane.checkpoint.restoring._Restoring.carry_out", die)
        with pytest.raises(WindowpaneError, match="in the middle"):
            going.carry_out()
    assert not (folder / "state/hot/spark").exists()
    assert "[RESTORE_CUT_SHORT]" in windowpane(folder, "run")[1]
    assert windowpane(folder, "reset", "--to", "monday", "--yes")[0] == 0
    assert Checkpoint(FolderStore(folder / "state/hot")).log.last_committed() == 2
    assert json.loads((folder / "state/hot/runs.json").read_text())["runs"] == [RUN]
