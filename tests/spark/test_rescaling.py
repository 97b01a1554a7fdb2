"""Another number of shards on real Spark: the results are those of a pipeline that was never rescaled."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.command_runs import COMMAND, Runs, feed, results, write_pipeline
from tests.spark.jobs import Job, Query
from tests.spark.test_promises import forget_commit
from tests.spark.test_queries import LAG, SCHEMA
from windowpane.checkpoint import generations
from windowpane.checkpoint.generations import NextGeneration
from windowpane.errors import StateError
from windowpane.runtime import rescaling
from windowpane.runtime.rescaling import Rescale, Rescaled

pytestmark = pytest.mark.spark

SQL = "SELECT k, count(*) AS n, collect_list(v) AS vs FROM s GROUP BY {window}, k"
LIMITED = {"dedupe": {"key": ["v"], "within": "20s"}, "limits": {"max_groups": 5}}
QUERIES = {
    "three stateful stages": Query(SQL.format(window="tumblingwindow('ss', 10)"), {"s": SCHEMA}, LAG, LIMITED),
    "sessions": Query(
        "SELECT k, count(*) AS n FROM s GROUP BY sessionwindow('ss', 4), k EMIT ON UPDATE", {"s": SCHEMA}, LAG
    ),
}


def batch(number: int) -> list[dict[str, Any]]:
    """Eleven groups with late rows, copies and open windows."""
    return [
        {"ts": 1000 * (7 * number + row % 5), "k": f"k{(row * row + number) % 11}", "v": row * 3 % 17 + number}
        for row in range(40)
    ]


def rescale(spark: SparkSession, job: Job, shards: int, *, dry_run: bool = False) -> Rescaled:
    (done,) = Rescale(job.pipeline(), shards, dry_run=dry_run).carry_out(spark)
    if not dry_run:
        job.shards = shards
    return done


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_same_results(spark: SparkSession, tmp_path: Path, query: Query) -> None:
    steady, moved = Job(tmp_path / "steady", query), Job(tmp_path / "moved", query)
    steady.feed_all(map(batch, range(4))).run(spark, drain=True)
    moved.feed_all(map(batch, range(2))).run(spark)
    tried = rescale(spark, moved, 4, dry_run=True)
    done = rescale(spark, moved, 4)
    assert done == tried
    assert (done.shards_before, done.shards) == (2, 4)
    assert sum(each.taken for each in done.after) > 0
    with pytest.raises(StateError, match="has 4 shards, the options ask for 2") as refused:
        Job(moved.folder, query).pipeline().start(spark)
    assert refused.value.hint is not None
    assert "windowpane rescale --shards 2" in refused.value.hint
    moved.feed_all([batch(2)]).run(spark)
    rescale(spark, moved, 1)
    moved.feed_all([batch(3)]).run(spark, drain=True)
    wanted, got = steady.outcome(), moved.outcome()
    for number in sorted(wanted.rows.keys() | got.rows.keys()):
        assert _sorted(got.rows.get(number, [])) == _sorted(wanted.rows.get(number, [])), number
    assert _sorted(got.all_side) == _sorted(wanted.all_side)
    assert [entry.accounting for entry in got.entries] == [entry.accounting for entry in wanted.entries]
    assert [entry.watermark_us for entry in got.entries] == [entry.watermark_us for entry in wanted.entries]
    generation = json.loads((moved.folder / "state/q/plan.json").read_text())["generation"]
    assert generation > 1
    folders = {path.name for path in (moved.folder / "state/q").iterdir() if path.is_dir()}
    assert {name for name in folders if name.startswith(("spark", "rescale"))} == {f"spark-{generation}"}


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without what depends on the clock, or on the task that wrote a side row."""
    kept = [{name: value for name, value in row.items() if name not in ("processing_time", "shard")} for row in rows]
    return sorted(repr(sorted(row.items(), key=lambda item: item[0])) for row in kept)


class CutShortError(Exception):
    """The process ends here."""


def _cut(*_: Any) -> None:
    raise CutShortError


def rescale_until(spark: SparkSession, job: Job, name: str) -> None:
    """A rescale that ends after one of its steps, and cleans up nothing."""
    owner = NextGeneration if "." in name else rescaling
    step = getattr(owner, name.rpartition(".")[2])

    def cut_short(*arguments: Any) -> None:
        step(*arguments)
        raise CutShortError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name.rpartition(".")[2], cut_short)
        patch.setattr(rescaling, "remove_others", lambda *_: None)
        with pytest.raises(CutShortError):
            rescale(spark, job, 3)


def rescale_without_removing(spark: SparkSession, job: Job) -> None:
    """One that ends when the new state counts, and the old one is still there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generations, "remove_others", _cut)
        with pytest.raises(CutShortError):
            rescale(spark, job, 3)


CUTS = ("divide_state", "store_state", "NextGeneration.begin", "NextGeneration.take_up_logs")


def test_a_rescale_that_is_cut_short_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    query = QUERIES["sessions"]
    steady, moved = Job(tmp_path / "steady", query), Job(tmp_path / "moved", query)
    steady.feed_all(map(batch, range(7))).run(spark, drain=True)
    moved.feed_all([batch(0)]).run(spark)
    for number, name in enumerate(CUTS, start=1):
        rescale_until(spark, moved, name)
        if number % 2:
            # The next start goes on as if there had been no rescale.
            moved.feed_all([batch(1 + number // 2)]).run(spark)
            assert {path.name for path in (moved.folder / "state/q").glob("*s*a*")} == {"spark"}
    forget_commit(moved.folder / "state/q/spark", 2)
    rescale_without_removing(spark, moved)
    moved.shards = 3
    moved.feed_all(map(batch, range(3, 7))).run(spark, drain=True)
    assert _sorted(moved.outcome().all_rows) == _sorted(steady.outcome().all_rows)
    assert [each.totals for each in moved.outcome().entries] == [each.totals for each in steady.outcome().entries]


def test_killed_while_it_writes_the_state(tmp_path: Path) -> None:
    write_pipeline(tmp_path)
    for number in range(4):
        feed(tmp_path, number, list(range(number * 12, number * 12 + 12)))
    runs = Runs(tmp_path)
    assert runs.command("run", "--trigger", "available_now").returncode == 0
    transform = tmp_path / "state/t"
    runs.process = subprocess.Popen(
        [*COMMAND, "rescale", "--shards", "3"], cwd=tmp_path, env=runs.environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    runs.until(lambda: any(transform.glob("spark-*/state")))
    runs.signal_group(signal.SIGKILL)
    runs.process.communicate()
    assert json.loads((transform / "plan.json").read_text())["shards"] == 1
    done = runs.command("rescale", "--shards", "3")
    assert done.returncode == 0, done.stderr
    assert "t: has 3 shards instead of 1 (shards: by k)" in done.stdout
    assert "Set `shards = 3` under [options] now: the file has 1." in done.stdout
    refused = runs.command("run", "--drain")
    assert "windowpane rescale --shards 1" in refused.stderr
    file = tmp_path / "pipeline.toml"
    file.write_text(file.read_text().replace("shards = 1", "shards = 3"))
    ended = runs.command("run", "--drain")
    assert ended.returncode == 0, ended.stderr
    assert sum(int(str(row["n"])) for row in results(tmp_path)) == 48
    assert len({(row["window_start"], row["k"]) for row in results(tmp_path)}) == len(results(tmp_path))
