"""Backfills on Spark: goldens as one batch, planted late rows that a check finds, and a repeated backfill."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.backfills import as_backfill, as_ended_stream
from tests.spark.jobs import FIRST_FILE_TIME, finish, write_json
from windowpane.core.time_range import TimeRange
from windowpane.errors import ConfigError
from windowpane.runtime.backfill_check import BackfillCheck
from windowpane.runtime.backfilling import Backfill
from windowpane.runtime.pipeline import Pipeline
from windowpane.testing import golden

SECOND = 1_000_000
GOLDENS = [
    "chains/seconds_to_minutes", "dedupe/second_copy", "emit/on_update_session", "emit/order_and_limit_per_window",
    "end/pending_lookahead", "end/open_state_window", "accounting/every_kind_at_once",
]  # fmt: skip


def test_goldens_give_as_a_batch_what_a_stream_gives_that_ends_before_any_row_is_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    joined = [min((golden_folder() / name).glob("*.slt")) for name in ("interval_joins", "stream_joins", "joins")]
    files = [golden_folder() / f"{name}.slt" for name in GOLDENS] + joined
    for number, path in enumerate(files):
        read = golden.read_golden(path)
        got, done = as_backfill(read, spark, tmp_path / str(number))
        assert got == as_ended_stream(read), path
        assert (done.account.late, done.account.buffered) == (0, 0), path


def golden_folder() -> Path:
    return Path(__file__).parents[1] / "slt"


def settings(**changed: Any) -> dict[str, Any]:
    """Two sums per window, in files. Rows come in three micro-batches; one of the third is 20 s late."""
    return {
        "streams": {
            "s": {
                "format": "json", "path": "data", "schema": "ts BIGINT, k STRING, v BIGINT",
                "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}, "options": {"maxFilesPerTrigger": 1},
            }
        },
        "options": {"eventtime.enabled": True, "trigger": "available_now", "checkpoint": "state", "shards": 2},
        "transforms": {
            "q": {
                "sql": "SELECT window_start, window_end, k, sum(v) AS total, avg(v) AS mean FROM s "
                       "GROUP BY tumblingwindow('ss', 10), k",
                "sink": "out", "side_output": {"late": {"sink": "dlq"}},
            }
        },
        "sinks": {"out": {"format": "json", "path": "out"}, "dlq": {"format": "json", "path": "dlq"}},
    } | changed  # fmt: skip


BATCHES: list[list[tuple[int, str | None, int | None]]] = [
    [(1, "x", 1), (2, "y", 2), (11, "x", 3)],
    [(12, "ü", None), (21, "x", 4), (22, None, 5), (35, "x", 6)],
    [(13, "x", 7), (36, "y", 8)],
]
"""Seconds, key and value of the rows of each micro-batch."""
WITHOUT_LATE_ROWS = {(0, "x"): 1, (0, "y"): 2, (10, "x"): 3, (10, "ü"): None, (20, "x"): 4, (20, None): 5}
WITH_ALL_ROWS = WITHOUT_LATE_ROWS | {(10, "x"): 10, (30, "x"): 6, (30, "y"): 8}


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline that has processed all files and was not drained."""
    folder = tmp_path_factory.mktemp("ran")
    for number, batch in enumerate(BATCHES):
        path = folder / "data" / f"{number}.json"
        write_json(path, [{"ts": second * 1000, "k": k, "v": v} for second, k, v in batch])
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    pipeline = Pipeline.from_dict(settings(), folder)
    finish(pipeline.start(spark), drain=False)
    return pipeline


def seconds(*bounds: int) -> TimeRange:
    return TimeRange(*(SECOND * each for each in bounds))


def written(folder: Path) -> dict[tuple[int, str | None], int | None]:
    rows = [json.loads(line) for path in folder.glob("part-*.json") for line in path.read_text().splitlines()]
    found = {(int(row["window_start"][17:19]), row["k"]): row["total"] for row in rows}
    assert len(found) == len(rows)
    return found


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        whole.update(str(path).encode() + path.read_bytes())
    return whole.hexdigest()


def test_a_check_finds_planted_late_rows_and_windows_that_are_open(ran: Pipeline, spark: SparkSession) -> None:
    base, before = ran.config.base_dir, digest(ran.config.base_dir)
    assert written(base / "out") == WITHOUT_LATE_ROWS
    (found,) = BackfillCheck(Backfill(ran, seconds(0, 60))).carry_out(spark)
    reasons = {(each.difference.key["window_start"].second, each.difference.key["k"]): each.reason
               for each in found.differences}  # fmt: skip
    assert reasons == {(10, "x"): "late", (30, "x"): "not_closed", (30, "y"): "not_closed"}
    late = found.differences[0]
    assert (late.difference.kind, late.evidence) == ("differs", "the side output has 1 late row of this window")
    assert [side["total"] for side in (late.difference.expected, late.difference.emitted) if side] == [10, 3]
    assert found.backfilled.account.named()["aggregated"] == 9
    (same,) = BackfillCheck(Backfill(ran, seconds(20, 30))).carry_out(spark)
    assert (same.results, list(same.differences)) == (2, [])
    assert digest(base) == before, "a check writes nothing"


def test_a_backfill_writes_the_windows_of_its_range_once_and_leaves_the_stream_alone(
    ran: Pipeline, spark: SparkSession
) -> None:
    base = ran.config.base_dir
    before = digest(base / "state"), digest(base / "out")
    job = Backfill(ran, seconds(10, 31))
    for done in [*job.carry_out(spark), *job.carry_out(spark)]:
        assert (done.account.read, done.outside, done.results) == (7, 2, 6)
        assert done.targets[0].place == str(base / "out-backfill" / "19700101T000010Z_19700101T000031Z")
        assert written(base / "out-backfill" / job.run_id) == {
            key: total for key, total in WITH_ALL_ROWS.items() if 10 <= key[0] < 31
        }
    assert (digest(base / "state"), digest(base / "out")) == before


@pytest.mark.parametrize("scan", ["auto", "spark"])
def test_folders_that_name_the_day_of_their_rows_are_left_out(spark: SparkSession, tmp_path: Path, scan: str) -> None:
    for day in range(1, 5):
        rows = [{"ts": (day * 86_400 + number) * 1000, "k": "x", "v": day} for number in range(3)]
        write_json(tmp_path / "data" / f"dt=1970-01-0{day + 1}" / "rows.json", rows)
    given = settings()
    given["streams"]["s"] |= {"schema": "ts BIGINT, k STRING, v BIGINT, dt STRING", "scan": scan}
    given["streams"]["s"]["eventtime"]["folders"] = "dt"
    pipeline = Pipeline.from_dict(given, tmp_path)
    (done,) = Backfill(pipeline, seconds(2 * 86_400, 3 * 86_400)).carry_out(spark)
    assert (done.account.read, done.outside, done.results) == (6, 0, 1), "the day after the range is read too"


def test_nothing_to_read_and_what_a_batch_cannot_give(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    empty = Pipeline.from_dict(settings(), tmp_path)
    (done,) = Backfill(empty, seconds(0, 10)).carry_out(spark)
    assert (done.account.read, done.results) == (0, 0)
    kafka = {"format": "kafka", "options": {"kafka.bootstrap.servers": "none:1", "topic": "t"}}
    twice = Pipeline.from_dict(settings(sinks={"out": kafka, "dlq": {"format": "memory"}}), tmp_path)
    with pytest.raises(ConfigError, match="BACKFILL_SINK"):
        Backfill(twice, seconds(0, 10)).carry_out(spark)
