"""Rows that cannot be read or computed become error rows with reason, detail and event, and the query goes on.

With ANSI mode and without it: Spark's own answers differ (an exception here, a NULL or a wrapped number there), ours do
not. Records of every kind keep to the schema in docs/.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import FIRST_FILE_TIME, KINDS, Job, Outcome, Query, finish, run_together
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

RECORD = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "docs" / "side-record.schema.json").read_text(encoding="utf-8"))
)
BIG = 2**62
FAILING = Query(
    "SELECT k, sum(v / d) AS q, max(v * 4) AS m, min(CAST(s AS INT)) AS c, max(a[1]) AS e, max(-i) AS n, "
    "max(to_date(t)) AS day, sum(v) / sum(d - 1) AS ratio, sum(8 / z) FILTER (WHERE z <> 0) AS f FROM s "
    "WHERE 10 / w > 0 GROUP BY tumblingwindow('ss', 10), k",
    {"s": "ts BIGINT, id INT, k STRING, v BIGINT, d BIGINT, s STRING, a ARRAY<INT>, i INT, t STRING, w INT, z INT"},
    {"eventtime.late_tolerance": "1s"},
    {"limits": {"max_groups": 3}, "dedupe": {"key": ["id"], "within": "1h"}},
)
GOOD = {"k": "a", "v": 6, "d": 2, "s": "7", "a": [1, 2], "i": 1, "t": "2024-01-01", "w": 1, "z": 0}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"d": 0}, "division_by_zero", "v / d"),
    ({"v": BIG}, "overflow", "v * 4"),
    ({"s": "seven"}, "cast_error", "CAST(s AS INT)"),
    ({"s": "99999999999"}, "cast_error", "CAST(s AS INT)"),
    ({"a": [1]}, "array_index", "a[1]"),
    ({"i": -(2**31)}, "overflow", "-i"),
    ({"t": "soon"}, "cast_error", "to_date(t)"),
    ({"w": 0}, "division_by_zero", "10 / w"),
    ({"ts": None}, "event_time_null", "ts is NULL"),
]
FINE: list[dict[str, Any]] = [{}, {"d": None}, {"v": None}, {"s": None}, {"a": None}, {"t": None}, {"v": BIG, "w": -1}]
"""NULL is no error, and neither is what WHERE or FILTER leave out: every row has `z = 0`."""


def rows() -> list[list[dict[str, Any]]]:
    given = [*FINE, *(change for change, _, _ in BAD)]
    first = [{"ts": 1000 + number, "id": number} | GOOD | change for number, change in enumerate(given)]
    ratio = [{"ts": 2000, "id": 100} | GOOD | {"k": "no ratio", "d": 1}]
    twice = [first[0] | {"ts": 1001}]
    others = [{"ts": 3000, "id": 200 + number} | GOOD | {"k": f"group {number}"} for number in range(2)]
    later = [{"ts": 60_000, "id": 300} | GOOD]
    late = [{"ts": 1500, "id": 400} | GOOD]
    return [first + ratio + twice + others, later, late]


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    lenient = spark.newSession()
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    jobs = {name: Job(tmp_path_factory.mktemp(name), FAILING).feed_all(rows()) for name in ("ansi", "lenient")}
    only_counted = replace(FAILING, transform={**FAILING.transform, "side_output": {"late": {"sink": "dlq"}}})
    jobs["counted"] = Job(tmp_path_factory.mktemp("counted"), only_counted).feed_all(rows())
    running = [jobs["ansi"].start(spark), jobs["lenient"].start(lenient), jobs["counted"].start(spark)]
    for each in running:
        finish(each, drain=True)
    return {name: job.outcome() for name, job in jobs.items()}


@pytest.mark.parametrize("name", ["ansi", "lenient"])
def test_each_bad_row_has_its_reason_its_detail_and_its_event(outcomes: dict[str, Outcome], name: str) -> None:
    records = {
        record["original_event"]["id"]: record
        for record in outcomes[name].all_side
        if record["kind"] == "error" and record["original_event"]
    }
    got = [
        (records[number]["reason"], records[number]["error_detail"])
        for number in range(len(FINE), len(FINE) + len(BAD))
    ]
    assert [reason for reason, _ in got] == [reason for _, reason, _ in BAD]
    assert all(text in detail for (_, detail), (_, _, text) in zip(got, BAD, strict=True)), got
    assert len(records) == len(BAD)
    totals = outcomes[name].entries[-1].totals
    assert (totals["in_"], totals["error"], totals["aggregated"], totals["filtered"]) == (22, len(BAD), 9, 1)


@pytest.mark.parametrize("name", ["ansi", "lenient"])
def test_a_result_that_cannot_be_computed_is_an_error_of_its_window(outcomes: dict[str, Outcome], name: str) -> None:
    found = [record for record in outcomes[name].all_side if record["kind"] == "error" and not record["original_event"]]
    assert [(record["reason"], record["group_key"]) for record in found] == [("division_by_zero", {"k": "no ratio"})]
    assert found[0]["window"] == {"start": "1970-01-01T00:00:00.000000Z", "end": "1970-01-01T00:00:10.000000Z"}
    assert sorted(row["k"] for row in outcomes[name].all_rows) == ["a", "a", "group 0"]


@pytest.mark.parametrize("name", ["ansi", "counted"])
def test_results_that_cannot_be_computed_are_counted_whether_or_not_they_have_a_route(
    outcomes: dict[str, Outcome], name: str
) -> None:
    assert sum(entry.refused for entry in outcomes[name].entries) == 1
    assert outcomes[name].entries[-1].sums["rows"]["refused"] == 1
    assert sorted(row["k"] for row in outcomes[name].all_rows) == ["a", "a", "group 0"]


@pytest.mark.parametrize("name", ["ansi", "lenient"])
def test_records_of_every_kind_keep_to_the_schema(outcomes: dict[str, Outcome], name: str) -> None:
    records = outcomes[name].all_side
    assert Counter(record["kind"] for record in records) == {
        "error": len(BAD) + 1, "late": 1, "duplicate": 1, "evicted": 1,
    }  # fmt: skip
    for record in records:
        RECORD.validate(record)
        assert list(record)[:12] == list(RECORD.schema["required"])
        if record["kind"] in ("late", "evicted", "duplicate"):
            assert None not in (record["event_time"], record["group_key"], record["original_event"], record["shard"])


def test_the_schema_refuses_what_is_no_record(outcomes: dict[str, Outcome]) -> None:
    record = outcomes["ansi"].all_side[0]
    for change in ({"kind": "lost"}, {"event_time": "2024-01-01T00:00:00Z"}, {"window": {"start": None}}, {"more": 1}):
        assert not RECORD.is_valid(record | change), change
    assert not RECORD.is_valid({name: value for name, value in record.items() if name != "shard"})


CSV = '1000,a,1\n2000,b,2\n3000,c\nx,d,4\n5000,e,5,6\n6000,f,six\n7000,"g\n8000,h,8\n'


def test_csv_lines_and_a_parquet_file_with_damage_in_its_middle(spark: SparkSession, tmp_path: Path) -> None:
    """What can be read of either counts, and the rest is an error row each."""
    counting = Query("SELECT count(*) AS n, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 60)", {"s": SCHEMA})
    csv = Job(tmp_path / "csv", counting, source_format="csv")
    (tmp_path / "csv" / "data" / "s" / "1.csv").write_text(CSV, encoding="utf-8")
    parquet = Job(tmp_path / "parquet", counting, source_format="parquet")
    damaged_parquet(tmp_path / "parquet" / "data" / "s")
    by_line, by_file = run_together(spark, [csv, parquet], drain=True)
    texts = {record["error_detail"] for record in by_line.all_side}
    assert texts == {"3000,c", "x,d,4", "5000,e,5,6", "6000,f,six", '7000,"g'}
    assert by_line.entries[-1].totals["error"] == 5
    assert {record["reason"] for record in by_line.all_side} == {"decode_error"}
    assert [(row["n"], row["s"]) for row in by_line.all_rows] == [(3, 11)]

    errors = by_file.all_side
    assert [record["reason"] for record in errors] == ["decode_error"]
    assert "bad.parquet" in errors[0]["error_detail"]
    totals = by_file.entries[-1].totals
    assert totals["in_"] == totals["aggregated"] + 1
    assert 1000 <= totals["aggregated"] < 3000, "the good file, and of the other the part before the damage"
    for record in [*by_line.all_side, *errors]:
        RECORD.validate(record)


SCHEMA = "ts BIGINT, k STRING, v BIGINT"


def damaged_parquet(folder: Path) -> None:
    """Two row groups of a thousand, the second with bytes overwritten; a good file beside it."""
    table = pa.table({"ts": range(2000), "k": [f"k{n}" for n in range(2000)], "v": [n * 7919 for n in range(2000)]})
    pq.write_table(table.slice(0, 1000), folder / "good.parquet")
    bad = folder / "bad.parquet"
    pq.write_table(table, bad, row_group_size=1000, use_dictionary=False)
    column = pq.ParquetFile(bad).metadata.row_group(1).column(2)
    content = bytearray(bad.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 200] = b"\xff" * 200
    bad.write_bytes(content)
    for path in folder.iterdir():
        os.utime(path, (FIRST_FILE_TIME,) * 2)


CORRUPTIONS = 8
MILLION = 1_000_000


def corrupt_lines(count: int) -> str:
    """Lines of JSON, every tenth of them bad in one of many ways. Made column by column: a million take a second."""
    good = [f'{{"ts":{1_700_000_000_000 + n},"k":"k{n % 50}","v":{n % 1000},"x":1.5}}\n' for n in range(count)]
    bad = [
        '{"ts":170000', '{"ts":"when","k":"a","v":1,"x":1}', '{"ts":null,"k":"a","v":1,"x":1}',
        '{"ts":9223372036854775807,"k":"a","v":1,"x":1}', '{"ts":1700000000000,"k":"a","v":1,"x":"NaN"}',
        '{"ts":1700000000000,"k":"' + "x" * 20_000 + '","v":"many","x":1}', '{"ts":1700000000000,"k":["a"],"v":1.5}',
        "not json at all",
    ]  # fmt: skip
    assert len(bad) == CORRUPTIONS
    for number in range(0, count, 10):
        choice = (number // 10) % (CORRUPTIONS * 20)
        good[number] = bad[choice % CORRUPTIONS if choice < CORRUPTIONS else (choice % 5)] + "\n"
    return "".join(good)


def test_a_million_rows_of_which_a_tenth_is_corrupt(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong types, cut JSON, NULL and absurd times, NaN, giant strings: the query goes on, and the sum is a million."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "all.json").write_text(corrupt_lines(MILLION), encoding="utf-8")
    stream = {
        "format": "json", "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT, x DOUBLE",
        "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True},
    }  # fmt: skip
    transform = {
        "sql": "SELECT k, count(*) AS n, sum(x) AS s FROM s GROUP BY tumblingwindow('ss', 60), k", "sink": "out",
        "side_output": {kind: {"sink": "dlq", "rate_limit": "off"} for kind in KINDS},
    }  # fmt: skip
    settings = {
        "streams": {"s": stream},
        "options": {"eventtime": {"enabled": True}, "trigger": "available_now", "shards": 2},
        "transforms": {"t": transform},
        "sinks": {"out": {"format": "memory"}, "dlq": {"format": "json", "path": "dlq"}},
    }
    out = MemorySink("out")
    running = Pipeline.from_dict(settings, tmp_path, sinks={"out": out}).start(spark)
    running.wait()
    ended = running.drain()["t"]
    assert ended is not None
    totals = ended.totals
    assert totals["in_"] == MILLION
    assert sum(count for name, count in totals.items() if name not in ("in_", "buffered")) == MILLION
    assert (totals["error"] + totals["late"], totals["buffered"]) == (ended.sums["side"]["error"], 0)
    assert MILLION * 0.05 < totals["error"] < MILLION * 0.1
    assert sum(row["n"] for row in out.rows) == totals["aggregated"]
    written = sum(path.read_bytes().count(b"\n") for path in (tmp_path / "dlq").glob("part-*"))
    assert written == totals["error"]
    assert not ended.sums["dropped"]
