"""Files to the columns of the input projection, as a worker does it, without Spark."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windowpane.config import parse_pipeline
from windowpane.core import columns as c
from windowpane.core.numbering import Place
from windowpane.core.rows import CHUNK_ROWS
from windowpane.evaluation.event_times import EventTimes, TimeLookup
from windowpane.evaluation.expressions import Computed
from windowpane.evaluation.projection import Projection
from windowpane.evaluation.unix_times import parse_timestamps, parse_unix
from windowpane.formats import load, source_format
from windowpane.plan.pipeline import plan_pipeline
from windowpane.scan.files import FileReader, folder_values, folders_of_path
from windowpane.scan.scan import Scan

CLOCK_US = 1_700_000_000_000_000
INT, TEXT, INSTANT = pa.int64(), pa.string(), pa.timestamp("us", "UTC")


def scan(
    *,
    columns: dict[str, pa.DataType],
    time: TimeLookup | None = None,
    computed: tuple[tuple[str, str, pa.DataType, bool], ...] = (),
    where: str | None = None,
    reason: str | None = None,
    format_name: str = "parquet",
) -> Scan:
    plain = tuple((f"_{name}", name) for name in columns)
    times = EventTimes((time,)) if time else None
    items = tuple((name, Computed(text, kind, fails, reason, name)) for name, text, kind, fails in computed)
    reader = FileReader(load(source_format(format_name).file_reader), tuple(columns.items()), 1 << 24)
    return Scan(reader, (Projection(times, plain, items, where),))


def listing(*paths: Path, modified_us: int = 7) -> pa.RecordBatch:
    """As Spark lists files."""
    modified = pa.array([modified_us] * len(paths), pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"path": [f"file:{path}" for path in paths], "modificationTime": modified})


def rows(of: Scan, *paths: Path) -> list[dict[str, object]]:
    return [row for scanned in of.read(iter([listing(*paths)]), CLOCK_US) for row in scanned.rows.to_pylist()]


def write(path: Path, **columns: pa.Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_timestamps_and_integers_become_microseconds(tmp_path: Path) -> None:
    day = dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC)
    path = write(tmp_path / "a.parquet", at=pa.array([day, None], INSTANT), ms=pa.array([-1, None], INT))
    of_instants = scan(columns={"at": INSTANT}, time=TimeLookup("at", parse_timestamps))
    assert [row[c.EVENT_TIME] for row in rows(of_instants, path)] == [-999_999, None]
    of_numbers = scan(columns={"ms": INT}, time=TimeLookup("ms", partial(parse_unix, unit_us=1000), strict=True))
    found = [(row[c.EVENT_TIME], row[c.ERROR]) for row in rows(of_numbers, path)]
    assert found == [(-1000, None), (None, "event_time_null")]


def test_a_time_too_large_to_compute_with_cannot_be_parsed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ms=pa.array([2**62, -(2**62), 5], INT))
    found = rows(scan(columns={"ms": INT}, time=TimeLookup("ms", partial(parse_unix, unit_us=1000), strict=True)), path)
    assert [row[c.ERROR] for row in found] == ["event_time_parse", "event_time_parse", None]


def test_in_processing_time_every_row_has_the_time_of_the_batch(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", v=pa.array([1, 2], INT))
    assert [row[c.EVENT_TIME] for row in rows(scan(columns={"v": INT}), path)] == [CLOCK_US, CLOCK_US]


def test_where_is_a_flag_and_null_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", v=pa.array([1, 20, None], INT))
    filtering = scan(columns={"v": INT}, computed=(("_where", '"v" > 10', pa.bool_(), False),), where="_where")
    assert [row[c.KEEP] for row in rows(filtering, path)] == [False, True, False]


def test_what_cannot_be_computed_is_null_and_its_reason_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", v=pa.array([2**62, 2, -(2**62) * 2], INT))
    guard = "CASE WHEN \"v\" > 1000 THEN 'overflow' END"
    doubling = scan(columns={"v": INT}, computed=(("_d", '"v" * 4', INT, True),), reason=guard)
    found = [(row["_d"], row[c.ERROR]) for row in rows(doubling, path)]
    assert found == [(None, "overflow"), (8, None), (None, "evaluation_error")]


def test_a_subexpression_that_several_columns_share_stops_no_batch(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", v=pa.array([2**62, 2], INT))
    shared = (("_a", '"v" * 4', INT, True), ("_b", 'CASE WHEN "v" * 4 > 0 THEN "v" * 4 END', INT, True))
    found = rows(scan(columns={"v": INT}, computed=shared, reason='CASE WHEN "v" * 4 IS NULL THEN NULL END'), path)
    assert [(row["_a"], row["_b"], row[c.ERROR]) for row in found] == [(None, None, "evaluation_error"), (8, 8, None)]


def test_columns_are_found_in_any_case_and_missing_ones_are_null(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", Price=pa.array([1], INT))
    found = rows(scan(columns={"price": INT, "seller": TEXT}), path)
    assert found == [{c.EVENT_TIME: CLOCK_US, "_price": 1, "_seller": None}]


def test_a_file_with_none_of_the_columns_still_has_its_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", other=pa.array([1, 2, 3], INT))
    assert [row["_v"] for row in rows(scan(columns={"v": INT}), path)] == [None, None, None]


def test_columns_of_folders(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / folder / "a.parquet", v=pa.array([1], INT))
        for folder in ("day=2024-05-01/kind=a%20b", "day=__HIVE_DEFAULT_PARTITION__")
    ]
    found = rows(scan(columns={"v": INT, "day": pa.date32(), "kind": TEXT}), *paths)
    assert [(row["_day"], row["_kind"]) for row in found] == [(dt.date(2024, 5, 1), "a b"), (None, None)]


@pytest.mark.parametrize(
    ("path", "file", "values"),
    [
        ("in", "in/day=1/kind=a/x", {"day": "1", "kind": "a"}),
        ("in/day=1", "in/day=1/kind=a/x", {"kind": "a"}),
        ("a=b/in/", "a=b/in/day=1/x", {"day": "1"}),
        ("in", "a=b/in/x", {}),
        ("s3a://bucket/in", "s3a://bucket/in/DAY=%3D/x", {"day": "="}),
        ("in", "in/day=/x", {"day": ""}),
    ],
)
def test_only_folders_below_the_path_of_a_stream_name_columns(path: str, file: str, values: dict[str, str]) -> None:
    of_path = folders_of_path(path)
    assert of_path is not None
    assert folder_values(file, of_path) == values


def test_folders_of_globs_and_of_recursive_streams_name_no_columns() -> None:
    assert folders_of_path("in/day=*") is None
    assert folders_of_path("in", recursive=True) is None


def test_names_of_folders_override_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "day=x" / "a.parquet", v=pa.array([1], INT), day=pa.array(["own"]))
    assert [row["_day"] for row in rows(scan(columns={"v": INT, "day": TEXT}), path)] == ["x"]
    lines = tmp_path / "day=x" / "a.json"
    lines.write_text('{"v": 1, "day": "own"}\n{"v": 2}\n')
    found = rows(scan(columns={"v": INT, "day": TEXT}, format_name="json"), lines)
    assert [(row["_v"], row["_day"]) for row in found] == [(1, "x"), (2, "x")]


@pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
@pytest.mark.parametrize("name", ["json", "text"])
def test_compressed_files(tmp_path: Path, codec: str, name: str) -> None:
    ending = {"gzip": "gz", "bz2": "bz2", "zstd": "zst", "lz4": "lz4"}[codec]
    path = tmp_path / f"a.{name}.{ending}"
    with pa.CompressedOutputStream(str(path), codec) as out:
        out.write('{"v": "ä"}\n{"v": "b"}\n'.encode())
    found = [row["_v"] for row in rows(scan(columns={"v": TEXT}, format_name=name), path)]
    assert found == (["ä", "b"] if name == "json" else ['{"v": "ä"}', '{"v": "b"}'])


@pytest.mark.parametrize("chunk", [4, 5, 100])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\n\nb", ["a", "", "b"]), (b"\n", [""]),
        (b"a\r\nb\rc\r", ["a", "b", "c"]), (b"a\xff\nb", ["a\ufffd", "b"]),
        (b"\xef\xbb\xbfa\n \n", ["a", " "]), (b"a\n\r", ["a", ""]), ("ä\n€".encode(), ["ä", "€"]),
    ],
)  # fmt: skip
def test_lines_of_text_files(
    tmp_path: Path, text: bytes, lines: list[str], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windowpane.scan.json.files.CHUNK_BYTES", chunk)
    (tmp_path / "a.txt").write_bytes(text)
    assert [row["_v"] for row in rows(scan(columns={"v": TEXT}, format_name="text"), tmp_path / "a.txt")] == lines


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array(["ä", None], pa.large_string()), pa.string()),
        (pa.array(["x", None]).dictionary_encode(), pa.string()),
        (pa.array([1_000_000_999, None], pa.timestamp("ns")), INSTANT),
        (pa.array([None, None], pa.null()), pa.int64()),
    ],
)
def test_narrower_types_are_widened(tmp_path: Path, stored: pa.Array, declared: pa.DataType) -> None:
    path = write(tmp_path / "a.parquet", v=stored)
    (scanned,) = scan(columns={"v": declared}).read(iter([listing(path)]), 0)
    assert scanned.rows.column("_v").type == declared
    assert scanned.rows.column("_v")[1].as_py() is None


@pytest.mark.parametrize(
    ("stored", "declared"),
    [(pa.array(["1"]), pa.int64()), (pa.array([1], pa.int64()), pa.int32()), (pa.array([1.5]), pa.int64())],
)
def test_a_file_of_another_type_is_an_error_row_that_names_it(
    tmp_path: Path, stored: pa.Array, declared: pa.DataType
) -> None:
    good = write(tmp_path / "good.parquet", v=pa.array([7], declared))
    bad = write(tmp_path / "bad.parquet", v=stored)
    found = rows(scan(columns={"v": declared}), bad, good)
    assert [row.get(c.ERROR) for row in found] == ["decode_error", None]
    assert f"{bad}: column `v` is {stored.type}, and {declared} is declared" in str(found[0][c.DETAIL])


def test_a_cut_off_file_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    whole = tmp_path / "a.arrow"
    table = pa.table({"v": list(range(30))})
    with pa.OSFile(str(whole), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    cut = tmp_path / "b.arrow"
    cut.write_bytes(whole.read_bytes()[:-200])
    found = rows(scan(columns={"v": INT}, format_name="arrow"), cut)
    assert [row["_v"] for row in found[:-1]] == list(range(len(found) - 1))
    assert 0 < len(found) - 1 < 30
    assert found[-1][c.ERROR] == "decode_error"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_file_of_the_format_is_one_error_row(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    assert [row[c.ERROR] for row in rows(scan(columns={"v": INT}), path)] == ["decode_error"]


def test_a_file_that_is_gone_is_one_error_row(tmp_path: Path) -> None:
    (gone,) = rows(scan(columns={"v": INT}), tmp_path / "gone.parquet")
    assert gone[c.ERROR] == "decode_error"


def test_arrow_files_in_both_forms(tmp_path: Path) -> None:
    table = pa.table({"v": [1, 2], "unused": ["a", "b"]})
    for name, open_writer in (("f.arrow", pa.ipc.new_file), ("s.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / name), "wb") as file, open_writer(file, table.schema) as writer:
            writer.write_table(table)
    found = rows(scan(columns={"v": INT}, format_name="arrow"), tmp_path / "f.arrow", tmp_path / "s.arrow")
    assert [row["_v"] for row in found] == [1, 2, 1, 2]


def test_rows_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", v=pa.array(range(CHUNK_ROWS + 5), INT))
    found = list(scan(columns={"v": INT}).read(iter([listing(path)]), 0))
    sizes = [scanned.rows.num_rows for scanned in found]
    assert max(sizes) <= CHUNK_ROWS
    assert sum(sizes) == CHUNK_ROWS + 5
    assert {scanned.place for scanned in found} == {Place.of_file(7, str(path))}


@pytest.mark.parametrize(
    ("config", "scanned"),
    [
        ({}, True),
        ({"spark.sql.session.timeZone": "Etc/UTC"}, True),
        ({"spark.sql.session.timeZone": "Europe/Berlin"}, False),
        ({"spark.sql.ansi.enabled": "false"}, False),
    ],
)
def test_the_scan_follows_the_settings_of_the_session(config: dict[str, str], *, scanned: bool) -> None:
    sql = "SELECT hour(ts) AS h, sum(v * 2) AS n FROM s GROUP BY tumblingwindow('ss', 5), hour(ts)"
    settings = {
        "streams": {"s": {"format": "parquet", "path": "data", "schema": "ts TIMESTAMP, v BIGINT"}},
        "transforms": {"q": {"sql": sql, "sink": "out"}},
        "sinks": {"out": {"format": "console"}},
        "spark": {"config": config},
    }
    (plan,) = plan_pipeline(parse_pipeline(settings))
    assert (plan.scan is not None) == scanned
