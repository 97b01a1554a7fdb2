"""`windowpane schema FILE…`: the DDL of sample files, and the values that do not fit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app
from windowpane.errors import ConfigError
from windowpane.sql import parse_schema
from windowpane.sql.sampling import sample_files


def ddl(path: Path, text: str, rows: int = 1000) -> str:
    path.write_text(text, encoding="utf-8")
    found = sample_files([path], rows).ddl
    parse_schema(found)
    return found


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"a": 1}, {"a": None}, {"b": "x"}], "a BIGINT, b STRING"),
        ([{"a": 1}, {"a": 2.5}], "a DOUBLE"),
        ([{"a": True}, {"a": False}], "a BOOLEAN"),
        ([{"a": None}], "a STRING"),
        ([{"a": 1}, {"a": "x"}], "a STRING"),
        ([{"a": 2**70}], "a DOUBLE"),
        ([{"a b": [1, 2]}, {"a b": []}], "`a b` ARRAY<BIGINT>"),
        ([{"a": []}], "a ARRAY<STRING>"),
        ([{"a": {"b": {"c": 1}, "d": ["x"]}}], "a STRUCT<b: STRUCT<c: BIGINT>, d: ARRAY<STRING>>"),
    ],
)
def test_the_types_of_json(tmp_path: Path, rows: list[dict[str, object]], expected: str) -> None:
    assert ddl(tmp_path / "x.json", "\n".join(map(json.dumps, rows))) == expected


def test_one_odd_value_does_not_change_a_type_and_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = ['{"price": 12}'] * 16 + ['{"price": "a lot"}', '{"price": 13}', '{"pri']
    path.write_text("\n".join(lines), encoding="utf-8")
    found = sample_files([path], 1000)
    assert (found.ddl, found.rows) == ("price BIGINT", 19)
    assert [misfit.render() for misfit in found.misfits] == [
        f'{path}:17: `price` is "a lot", not BIGINT',
        f'{path}:19: cannot be read: {{"pri',
    ]
    assert sample_files([path], 16).misfits == ()


def test_many_odd_values_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("\n".join(['{"a": 1}'] * 40 + ['{"a": "x"}'] * 30), encoding="utf-8")
    found = sample_files([path], 1000)
    assert (len(found.misfits), found.others) == (10, 20)


def test_csv_has_its_names_in_the_first_line_or_those_of_spark(tmp_path: Path) -> None:
    assert ddl(tmp_path / "x.csv", "id,name,ok,x\n1,a,true,1.5\n2,b,false,2\n") == (
        "id BIGINT, name STRING, ok BOOLEAN, x DOUBLE"
    )
    assert ddl(tmp_path / "x.csv", "1,a\n2,b\n") == "_c0 BIGINT, _c1 STRING"


def test_parquet_and_arrow_have_their_own(tmp_path: Path) -> None:
    fields = [("t", pa.timestamp("us", "UTC")), ("s", pa.struct([("m", pa.map_(pa.string(), pa.int32()))]))]
    table = pa.schema(fields).empty_table()
    pq.write_table(table, tmp_path / "x.parquet")
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    for name in ("x.parquet", "x.arrow"):
        assert sample_files([tmp_path / name], 10).ddl == "t TIMESTAMP, s STRUCT<m: MAP<STRING, INT>>"


def test_folders_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    with gzip.open(tmp_path / "deep" / "x.json.gz", "wt") as file:
        file.write('{"a": 1}\n')
    (tmp_path / "notes.md").write_text("no data", encoding="utf-8")
    assert sample_files([tmp_path], 10).ddl == "a BIGINT"


@pytest.mark.parametrize(
    ("name", "code"), [("none.json", "FILE_UNREADABLE"), ("x.md", "UNKNOWN_FORMAT"), ("e.json", "NO_ROWS")]
)
def test_what_has_no_schema(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "x.md").touch()
    (tmp_path / "e.json").touch()
    with pytest.raises(ConfigError) as refused:
        sample_files([tmp_path / name], 10)
    assert refused.value.code == code


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": "x"}\n', encoding="utf-8")
    shown = CliRunner().invoke(app, ["schema", str(path)]).output
    assert shown == f'schema = "a BIGINT"\n\n# {path}:3: `a` is "x", not BIGINT\n'
    answer = json.loads(CliRunner().invoke(app, ["schema", str(path), "--json", "--rows", "2"]).output)
    assert answer == {"ddl": "a BIGINT", "rows": 2, "misfits": [], "others": 0}
    assert "$schema" in json.loads(CliRunner().invoke(app, ["schema"]).output)
