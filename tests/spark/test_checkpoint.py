"""Checkpoints on real Spark: results of several in one folder, and parts that are damaged or gone."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checkpoint.memory_store import ON_DISK, SparkOnDisk
from tests.spark.jobs import Job, Query, finish
from tests.spark.test_promises import forget_commit
from tests.spark.test_queries import LAG, SCHEMA
from windowpane.runtime import Pipeline, pipeline

pytestmark = pytest.mark.spark

COUNTS = Query("SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 3), k", {"s": SCHEMA}, LAG)


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"ts": 1000 * (first + number), "k": f"k{number % 3}", "v": number} for number in range(count)]


def file_settings(job: Job) -> dict[str, Any]:
    """Results and side rows in folders that `shared` names, beside the folders of the jobs."""
    settings = job.settings()
    settings["sinks"] = {name: {"format": "json", "path": f"../shared/{name}"} for name in ("results", "dlq")}
    return settings


def run(spark: SparkSession, job: Job, *, drain: bool = False) -> None:
    finish(Pipeline.from_dict(file_settings(job), job.folder).start(spark), drain=drain)


def lines(folder: Path) -> Iterator[str]:
    return (line for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines())


def counted(folder: Path) -> int:
    return sum(json.loads(line)["n"] for line in lines(folder))


def test_checkpoints_keep_each_other_s_files(spark: SparkSession, tmp_path: Path) -> None:
    """One pipeline on a new checkpoint, and another with the same transform: all rows of all of them stay."""
    shared = tmp_path / "shared"
    for name, number in (("one", 31), ("two", 10), ("three", 5)):
        job = Job(tmp_path / name, COUNTS)
        late = [{"ts": 0, "k": "late", "v": 1}]
        job.feed_all([rows(100, number), rows(200, number), late])
        run(spark, job, drain=True)
    assert counted(shared / "results") == 2 * (31 + 10 + 5)
    assert sum(json.loads(line)["kind"] == "late" for line in lines(shared / "dlq")) == 3
    assert not [path.name for folder in shared.iterdir() for path in folder.iterdir() if path.name.startswith("_")]


def modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    return {name: mode for name, mode in found.items() if mode & 0o777 != (0o700 if stat.S_ISDIR(mode) else 0o600)}


def test_only_the_owner_may_read_the_checkpoint_and_all_may_read_the_output(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's logs, state and checksums included, also after a restart on a checkpoint that others could read."""
    tmp_path.chmod(0o755)
    routes = {"late": {"sink": "dlq"}, "error": {"sink": "reinject", "then": "dlq", "include_original": True}}
    job = Job(tmp_path / "a job", replace(COUNTS, transform={"side_output": routes}))
    state = job.folder / "state"
    for number in range(2):
        for path in state.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        late: list[dict[str, Any]] = [{"ts": 0, "k": "late", "v": 1}, {"ts": None, "k": "no time", "v": 1}]
        job.feed_all([rows(1000 * number + at, 9) + late for at in (100, 200, 300, 400)])
        run(spark, job)
        assert modes(state) == {}
    written = {"/".join(path.relative_to(state).parts[2:4]) for path in state.glob("q/spark/*/*")}
    names = [path.name for path in state.rglob("*")]
    assert written >= {"offsets/0", "offsets/7", "commits/7", "sources/0", "state/0"}
    assert any(name.endswith((".changelog", ".zip")) for name in names)
    assert any(name.endswith(".crc") for name in names)
    output = [path for path in (tmp_path / "shared").rglob("*") if not path.name.startswith(".")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in output if path.is_file()} == {0o644}
    assert {stat.S_IMODE(path.stat().st_mode) for path in output if path.is_dir()} == {0o755}


def test_everything_but_sparks_own_files_goes_through_the_store(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a store in memory, the disk gets nothing but what Spark and its workers read and write."""
    routes = {"late": {"sink": "dlq"}, "error": {"sink": "reinject", "then": "dlq", "include_original": True}}
    job = Job(tmp_path, replace(COUNTS, transform={"side_output": routes}))
    bad: list[dict[str, Any]] = [{"ts": None, "k": "no time", "v": 1}, {"ts": 0, "k": "late", "v": 1}]
    store = SparkOnDisk(str(tmp_path / "state"))
    monkeypatch.setattr(pipeline, "pipeline_store", lambda *_settings: store)
    for batch, drain in ((rows(100, 9), False), (rows(200, 9) + bad, False), (rows(300, 2) + bad, True)):
        job.feed(batch)
        job.run(spark, drain=drain)
        on_disk = {path.relative_to(tmp_path / "state").parts[:2] for path in (tmp_path / "state").rglob("*")}
        assert {part for _, *parts in on_disk for part in parts} <= set(ON_DISK)
    names = {"/".join(name.split("/")[-2:]) for name in store.objects}
    assert names >= {"state/status.json", "q/plan.json", "q/finished.json", "ledger/000000000002.json"}
    assert [name for name in names if name.endswith("delivered.json")]
    assert sum(row["n"] for row in job.results.rows) == 20


def test_a_replay_takes_the_place_of_its_own_files_also_after_an_upgrade(spark: SparkSession, tmp_path: Path) -> None:
    """As if an earlier version, which left the run out of names, had written a batch and not committed it."""
    results = tmp_path / "shared" / "results"
    job = Job(tmp_path / "job", COUNTS).feed_all([rows(100, 9), rows(200, 9), rows(300, 9)])
    run(spark, job)
    before = sorted(lines(results))
    transform = tmp_path / "job" / "state" / "q"
    forget_commit(transform / "spark", 2)
    run_id = json.loads((transform / "spark" / "metadata").read_text())["id"]
    last = next(results.glob("part-*-000000000002-*"))
    assert last.name.startswith(f"part-q-{run_id}-000000000002-00000.")
    last.rename(results / last.name.replace(f"{run_id}-", ""))
    (results / last.name.replace("00000.json", "00001.json")).write_text('{"n": 99, "k": "of an attempt"}\n')
    plan = json.loads((transform / "plan.json").read_text())
    del plan["unnamed_until"]
    (transform / "plan.json").write_text(json.dumps(plan))
    earlier = results / "part-q-000000000001-00000.json"
    earlier.write_text('{"n": 7, "k": "of another checkpoint"}\n')
    run(spark, job)
    assert sorted([*before, *earlier.read_text().splitlines()]) == sorted(lines(results))
    assert [path.name for path in results.glob("part-*-000000000002-*")] == [last.name]
    assert len(list(results.glob(f"part-q-{run_id}-*"))) == len(list(results.glob("part-q-*-*"))) - 1
