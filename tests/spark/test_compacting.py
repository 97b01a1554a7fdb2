"""`windowpane compact` between two runs of a pipeline: the results are those of a pipeline that was not compacted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.command_runs import feed, results, write_pipeline
from windowpane.cli.app import app
from windowpane.runtime import Pipeline
from windowpane.runtime.golden_spark import finish

pytestmark = pytest.mark.spark


def test_results_are_compacted_between_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    write_pipeline(tmp_path, options='trigger = "available_now"')
    for number in range(6):
        feed(tmp_path, number, [number * 10, number * 10 + 1, number * 10 + 5])
    finish(Pipeline.from_toml(tmp_path / "pipeline.toml").start(spark), drain=False)
    before = sorted(map(str, results(tmp_path)))
    names = {file.name for file in (tmp_path / "out").glob("part-*")}
    outcome = CliRunner().invoke(app, ["compact", str(tmp_path / "pipeline.toml"), "--json"])
    assert outcome.exit_code == 0, outcome.output
    (done,) = json.loads(outcome.stdout)["sinks"]
    assert (done["before"], done["after"]) == (len(names), 2)
    assert sorted(map(str, results(tmp_path))) == before
    for number in (6, 7):
        feed(tmp_path, number, [number * 10])
    finish(Pipeline.from_toml(tmp_path / "pipeline.toml").start(spark), drain=True)
    counts = [(str(row["window_start"]), row["k"], row["n"]) for row in results(tmp_path)]
    assert len(counts) == len(set(counts)) == 6 * 3 + 2, "every row has a window of its own"
    again = CliRunner().invoke(app, ["compact", str(tmp_path / "pipeline.toml")])
    assert again.stdout.endswith(" files became 1\n"), "a finished pipeline writes nothing again"
    assert sorted(counts) == sorted((str(row["window_start"]), row["k"], row["n"]) for row in results(tmp_path))
