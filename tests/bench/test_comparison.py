"""What the benchmark does with what engines give it: wrong or missing results are notes, earlier figures stay."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from bench.nexmark import flink_tables, report
from bench.nexmark.comparison import Comparison, Sizes, check, measure
from bench.nexmark.datasets import Dataset, first_files, json_lines, write_dataset
from bench.nexmark.engine import Engine, Rate, batch_sizes
from bench.nexmark.generator import IN_TOPIC, Shape, chunk
from bench.nexmark.message_values import ValueFormat, encoded, write_schema
from bench.nexmark.processes import EngineError
from bench.nexmark.progress import Progress
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from bench.nexmark.result_check import Mismatch, compare
from bench.nexmark.results import Results
from bench.nexmark.sources import windowpane_stream
from bench.nexmark.topics import Topic
from windowpane.formats import CODECS, load
from windowpane.sql import parse_schema
from windowpane.sql.types import to_arrow

SIZES = Sizes(rows=4_000, check_rows=8_000, batch_rows=[2_000])
RUN = {"machine": {"when": "now"}, "arguments": {}}


class InDuckDB(Engine):
    """An engine that gives what is expected, but for some rows, and fails at some queries."""

    def __init__(self, name: str = "windowpane", *, rows: str = "", fails_at: Sequence[str] = ()) -> None:
        self.name, self._rows, self._fails_at = name, rows, fails_at

    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        for name, (query, data) in cases.items():
            if name in self._fails_at:
                raise EngineError("Caused by: java.lang.OutOfMemoryError")
            write_results(query, data, folder / name, self._rows)

    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        if f"rate of {query.name}" in self._fails_at:
            raise EngineError("not done within 900 s")
        return [Rate(float(size), size) for size in batch_sizes(batch_rows, data)]

    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


def write_results(query: Query, data: Dataset, folder: Path, rows: str) -> None:
    folder.mkdir(parents=True)
    database = duckdb.connect()
    database.execute(f"CREATE VIEW bids AS FROM read_parquet('{data.folders['bids']}/*')")
    stamps = ", ".join(f"make_timestamp({name}) AS {name}" for name in ("window_start", "window_end"))
    database.execute(
        f"COPY (SELECT * REPLACE ({stamps}) FROM ({query.duckdb}) {rows}) TO '{folder}/part.parquet'"
    )  # fmt: skip


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(said: io.StringIO) -> Progress:
    return Progress(Console(file=said))


def test_engines_that_fail_or_differ_are_notes_and_the_others_are_measured(
    progress: Progress, said: io.StringIO
) -> None:
    engines = [
        InDuckDB(),
        InDuckDB("spark", rows="WHERE n > 2"),
        InDuckDB("flink", fails_at=["hop-60-5", "rate of tumbling"]),
    ]
    queries = [QUERIES["tumbling"], QUERIES["hop-60-5"]]
    comparisons = check(queries, engines, SIZES, progress)
    for comparison in comparisons:
        measure(comparison, engines, SIZES, progress)
    tumbling, hopping = comparisons
    assert (tumbling.differs, hopping.differs) == ({"spark"}, {"spark"})
    assert "are missing" in tumbling.notes["spark"]
    assert tumbling.notes["flink"] == "not done within 900 s"
    assert hopping.notes["flink"] == "Caused by: java.lang.OutOfMemoryError"
    assert tumbling.equal_rows["windowpane"] > 100
    assert set(tumbling.rates) == set(hopping.rates) == {"windowpane"}
    found = [report.as_json(comparison) for comparison in comparisons]
    assert [row[2:5] for row in report.comparison_rows(found)] == [
        ["0.004", "differs", "none"],
        ["0.002", "differs", "none"],
    ]
    assert "tumbling, flink: not done within 900 s" in report.comparison_notes(found)
    assert "tumbling: windowpane: M rows/s 0.004 at 0.004 M" in said.getvalue()
    markdown = report.markdown(report.COMPARED, report.comparison_rows(found), report.comparison_notes(found))
    assert markdown.count("\n- ") == 4


def test_every_file_of_a_small_run_leaves_batches_enough() -> None:
    assert SIZES.of(QUERIES["q7"]) == (4_000, 1_332)
    assert Sizes(20_000_000, 0, []).of(QUERIES["tumbling"]) == (60_000_000, 500_000)


def test_an_engine_may_get_the_first_files_only(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "all", ("bids",), Shape(), 1_000, file_rows=100)
    some = first_files(data, 0.4, tmp_path)
    assert (some.rows, some.files, sorted(path.name for path in some.folders["bids"].iterdir())) == (
        400, 4, [f"{number:06}.parquet" for number in range(4)],
    )  # fmt: skip
    assert first_files(data, 1, tmp_path) is data


@pytest.mark.parametrize(
    ("rows", "most", "sizes"),
    [
        (30_000_000, None, [1_000_000, 2_000_000, 5_000_000, 10_000_000]),
        (20_000_000, None, [1_000_000, 2_000_000, 5_000_000]),
        (6_000_000, None, [1_000_000, 2_000_000]),
        (6_000_000, 1_000_000, [1_000_000]),
        (2_000_000, None, [500_000]),
        (600_000, None, [500_000]),
    ],
)
def test_only_batches_that_leave_three_are_tried(rows: int, most: int | None, sizes: list[int]) -> None:
    data = Dataset({}, rows, 500_000, rows // 500_000, None)
    assert batch_sizes([1_000_000, 2_000_000, 5_000_000, 10_000_000], data, most) == sizes


def kept(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


def test_a_part_leaves_the_figures_of_other_parts_and_queries(tmp_path: Path) -> None:
    Results(tmp_path, RUN).keep("comparison", [{"query": "q5", "rows": 1}, {"query": "q7", "rows": 1}])
    Results(tmp_path, RUN).keep("latency", [{"engine": "spark"}])
    later = Results(tmp_path, {"machine": {"when": "later"}, "arguments": {"rows": 2}})
    later.keep("comparison", [{"query": "q7", "rows": 2}])
    found = kept(tmp_path)
    assert [(one["query"], one["rows"], one["when"]) for one in found["comparison"]] == [
        ("q5", 1, "now"),
        ("q7", 2, "later"),
    ]
    assert [one["engine"] for one in found["latency"]] == ["spark"]
    assert found["runs"]["comparison"]["arguments"] == {"rows": 2}
    assert found["runs"]["latency"] == RUN


def test_results_that_cannot_be_read_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"comparison": [', encoding="utf-8")
    Results(tmp_path, RUN).keep("latency", [{"engine": "spark"}])
    assert list(kept(tmp_path)) == ["latency", "runs"]
    assert (tmp_path / "results.unreadable").read_text(encoding="utf-8").startswith('{"comp')


@pytest.mark.parametrize(
    ("split", "width_us", "wrong"),
    [
        ("n // 3, n - n // 3", 1_000_000, ""),
        ("n, 1", 1_000_000, "others"),
        ("n // 3, n - n // 3", 2_000_000, "another width"),
    ],
)
def test_windows_by_the_clock_are_compared_by_what_must_hold(
    tmp_path: Path, split: str, width_us: int, wrong: str
) -> None:
    query = QUERIES["q12"]
    data = write_dataset(tmp_path / "data", ("bids",), Shape(), 4_000, file_rows=2_000, flush=True)
    in_two = (
        f"SELECT bidder, 1700000000000000 + 1000000 * place AS window_start, window_start + {width_us} AS window_end, "
        f"[{split}][place] AS n FROM ({query.duckdb}), range(1, 3) AS r(place)"
    )
    write_results(replace(query, duckdb=in_two), data, tmp_path / "results", "")
    if wrong:
        with pytest.raises(Mismatch, match=wrong):
            compare(query, data, tmp_path / "results")
    else:
        assert compare(query, data, tmp_path / "results") == Shape().keys - unseen(data)


def unseen(data: Dataset) -> int:
    counted = duckdb.execute(
        f"SELECT count(DISTINCT bidder) FROM read_parquet('{data.folders['bids']}/*') WHERE bidder >= 0"
    ).fetchone()
    assert counted is not None
    return Shape().keys - int(counted[0])


def test_a_topic_is_read_to_its_end_or_to_an_offset_in_each_partition() -> None:
    query = QUERIES["kafka-tumbling"]
    data = Dataset({}, 1_000, 500, 2, None, "json", topic=Topic("host:1", "bids", 1_000, 0))
    assert "'scan.bounded.mode' = 'latest-offset'" in flink_tables.sources(query, data)[1]
    part = flink_tables.sources(query, replace(data, rows=250))[1]
    assert "'scan.bounded.specific-offsets' = 'partition:0,offset:125;partition:1,offset:125'" in part
    run = {"topic": vars(data.topic), "batch_rows": 7}
    stream = windowpane_stream(run, "bids")
    assert stream["options"]["maxOffsetsPerTrigger"] == 7
    assert stream["schema"] == IN_TOPIC.replace("ts TIMESTAMP", "ts STRING")


@pytest.mark.parametrize(("name", "time"), [("avro", dt.datetime), ("protobuf", int)])
def test_messages_in_other_formats_have_the_rows_of_the_files(name: ValueFormat, time: type, tmp_path: Path) -> None:
    rows = chunk("bids", Shape(), 0, 20)
    values = encoded(json_lines(rows), name)
    topic = Topic("host:1", "bids", 20, 0, name, str(write_schema(name, tmp_path)))
    data = Dataset({}, 20, 10, 2, None, "json", topic=topic)
    stream = windowpane_stream({"topic": vars(topic), "batch_rows": 7}, "bids")
    found = CODECS.find(name)
    assert found is not None
    codec = load(found.workers)({"schema_file": stream["options"]["schema_file"]})
    columns = [(column.name, to_arrow(column.type)) for column in parse_schema(stream["schema"])]
    decoded = codec.decode(pa.array(values), pa.schema(columns)).columns.to_pylist()
    assert [row["price"] for row in decoded] == rows.column("price").to_pylist()
    assert {type(row["ts"]) for row in decoded} == {time}
    if name == "avro":
        assert "url STRING NOT NULL, ts TIMESTAMP(3) NOT NULL" in flink_tables.sources(QUERIES["kafka-avro"], data)[1]


def test_the_rate_that_counts_is_the_best() -> None:
    comparison = Comparison(QUERIES["tumbling"], rates={"windowpane": [Rate(3.0, 1), Rate(8.0, 2)], "flink": [Rate(2)]})
    assert comparison.best("windowpane") == Rate(8.0, 2)
    assert (comparison.ratio("flink"), comparison.ratio("spark")) == (4.0, None)
