"""CSV files as workers read them. tests/spark/test_csv_scan.py compares them with Spark's reader."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windowpane.config import Stream
from windowpane.plan.scan_sources import Refused, scan_columns
from windowpane.remote.input_file import InputFile
from windowpane.scan.csv.files import CsvFiles
from windowpane.scan.files import FileReader
from windowpane.sql import parse_schema

COLUMNS = (("n", pa.int64()), ("k", pa.string()), ("x", pa.float64()))


def read(file: Path, *, used: tuple[int, ...] = (0, 1, 2), of_path: int | None = 0, **options: str) -> list[Any]:
    """The rows of a file, and for bad lines their text."""
    reader = CsvFiles.of(
        [name for name, _ in (*COLUMNS, ("dt", None))][: 4 if "dt=" in str(file) else 3], options, of_path
    )
    columns = [*(COLUMNS[number] for number in used), *([("dt", pa.int64())] if "dt=" in str(file) else [])]
    found: list[Any] = []
    for batch in FileReader(reader, tuple(columns), 0, folders_of_path=of_path).contents(InputFile(str(file))):
        assert isinstance(batch, pa.RecordBatch)
        found += [row["_corrupt"] or tuple(row.values())[:-1] for row in batch.rename_columns(
            [*batch.schema.names[:-1], "_corrupt"]).to_pylist()]  # fmt: skip
    return found


def test_bad_lines_are_found_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('1,a,1.5\n2,b\n\nx,c,3\n4,"d,e",\n5,"f\n6,g,1e3,\n+7,"",NaN\n')
    found = read(file)
    assert found[:2] == [(1, "a", 1.5), "2,b"]
    assert found[2:6] == ["x,c,3", (4, "d,e", None), '5,"f', "6,g,1e3,"]
    assert found[6][:2] == (7, None)


def test_a_field_is_bad_only_for_queries_that_read_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,a,oops\n2,b,3\n4,c\n")
    assert read(file, used=(1,)) == [("a",), ("b",), "4,c"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_headers_are_skipped_once_per_file(tmp_path: Path, ending: str) -> None:
    file, text = tmp_path / f"a.{ending}", b"\xef\xbb\xbf\n  \nn,k,x\n1,a,2\nn,k,x\n"
    file.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert read(file, header="true") == [(1, "a", 2.0), "n,k,x"]
    file.write_bytes(gzip.compress(b"n,k,x") if ending.endswith("gz") else b"n,k,x")
    assert read(file, header="true") == []


def test_folders_name_columns_that_lines_do_not_have(tmp_path: Path) -> None:
    file = tmp_path / "dt=7/a.csv"
    file.parent.mkdir()
    file.write_text("1,a,2\n2,b,3,7\n")
    assert read(file) == [(1, "a", 2.0, 7), "2,b,3,7"]
    assert read(file, of_path=None) == ["1,a,2", (2, "b", 3.0, 7)]


def refusal(schema: str = "n BIGINT, k STRING", **options: str) -> str | None:
    stream = Stream.model_validate({"format": "csv", "path": "in", "schema": schema, "options": options})
    try:
        scan_columns(stream, parse_schema(schema))
    except Refused as refused:
        return str(refused)
    return None


def test_what_workers_leave_to_spark() -> None:
    assert refusal(header="true", sep="|", nullValue="-", quote="'", escape="'") is None
    assert refusal(sep="||") == "option sep is not one ASCII character"
    assert refusal(dateFormat="dd.MM.yyyy") == "option dateFormat is for Spark's reader"
    assert refusal(multiLine="true") == "option multiLine is for Spark's reader"
    assert refusal(enforceSchema="false") == "option enforceSchema makes Spark compare headers with the schema"
    assert refusal(sep='"') == "options sep, quote and escape have a character in common"
    assert refusal("n BIGINT, at TIMESTAMP") == "column `at` is TIMESTAMP, and read from CSV by Spark"


def test_options_of_parquet() -> None:
    """A declared schema is the merged one; other options are Spark's."""
    for name, wanted in (
        ("mergeSchema", None),
        ("datetimeRebaseMode", "option datetimeRebaseMode is for Spark's reader"),
    ):
        stream = Stream.model_validate(
            {"format": "parquet", "path": "in", "schema": "n BIGINT", "options": {name: "x"}}
        )
        found = None
        try:
            scan_columns(stream, parse_schema("n BIGINT"))
        except Refused as refused:
            found = str(refused)
        assert found == wanted
