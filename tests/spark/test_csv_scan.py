"""CSV files in the columnar scan against Spark's own CSV reader: the same values, the same bad lines."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import FIRST_FILE_TIME, KINDS, finish
from tests.spark.test_scan import comparable_record
from windowpane.connectors.sinks import MemorySink
from windowpane.remote.input_file import InputFile
from windowpane.runtime import Pipeline
from windowpane.scan.csv.files import CsvFiles
from windowpane.sql import parse_schema
from windowpane.sql.types import to_arrow

pytestmark = pytest.mark.spark
DIALECTS: list[tuple[str, dict[str, str]]] = [
    ('a",\\ ', {}),
    ('a", ', {"escape": '"', "header": "true"}),
    ("a'|#", {"sep": "|", "quote": "'", "escape": "#", "nullValue": "a"}),
    ('a",\t', {"delimiter": "\\t", "escape": "", "nullValue": ","}),
    ('a",', {"quote": ""}),
]
FIELDS = [
    "", "0", "-0", "+5", "127", "128", "-32769", "2147483648", "9223372036854775807", "9223372036854775808", "1_0",
    " 1", "1 ", "0x1F", "٣", "1.5", "1.", ".5", "-.5e-3", "1e400", "1e-400", "+1.5", "1.5f", "2D", "NaN", "nan",
    "Inf", "-Inf", "+Inf", "Infinity", "-Infinity", "inf", " 1.5\t", "0x1p3", "0x.8p1f", "0x1.8", "1e",
    "3.4028236e38", "1.17549435E-38", "0.1", "true", "TRUE", "False", "yes", "1", "t", "2024-02-29", "2023-02-29",
    "2024-2-3", "2024-02", "2024", "24-02-29", "2024-02-29T10:00", "2024-02-29 x", "2024-02-29x", " 2024-02-29 ",
    "+2024-02-29", "-0044-03-15", "10000-01-01", "99999999-01-01", "2024-13-01", "2024-02-291", "ä", "\U0001d7d8",
    "'", "a b",
]  # fmt: skip
TYPES = "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g BOOLEAN, h DATE, i STRING"


def by_workers(file: Path, schema: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    """Rows of all columns, and the text of bad lines."""
    columns = parse_schema(schema)
    typed = pa.schema([(column.name, to_arrow(column.type)) for column in columns])
    reader = CsvFiles.of([column.name for column in columns], options)
    found: list[tuple[Any, ...]] = []
    for part in reader.read(InputFile(str(file)), typed):
        arrays = [array.cast(pa.int32()) if pa.types.is_date(array.type) else array for array in part.columns.columns]
        found += zip(*(array.to_pylist() for array in arrays), part.bad.to_pylist(), strict=True)
    return found


def by_spark(spark: SparkSession, file: Path, schema: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    reader = spark.read.schema(f"{schema}, _bad STRING").options(**options, columnNameOfCorruptRecord="_bad")
    columns = [f"unix_date({each.name})" if each.type == "DATE" else each.name for each in parse_schema(schema)]
    return [tuple(row) for row in reader.csv(str(file)).coalesce(1).selectExpr(*columns, "_bad").collect()]


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row)) for row in rows]


@pytest.mark.parametrize(("alphabet", "options"), DIALECTS)
def test_lines_are_divided_alike(spark: SparkSession, tmp_path: Path, alphabet: str, options: dict[str, str]) -> None:
    """All lines of up to five characters that matter, with all ends of lines."""
    lines = ["".join(chars) for size in range(6) for chars in itertools.product(alphabet, repeat=size)]
    file = tmp_path / "a.csv"
    ends = itertools.cycle(["\n", "\r\n", "\r"])
    file.write_text("".join(line + end for line, end in zip(lines, ends, strict=False)), newline="")
    for schema in ("x STRING, y STRING", "x STRING, y STRING, z STRING"):
        found, wanted = by_workers(file, schema, options), by_spark(spark, file, schema, options)
        assert comparable(found) == comparable(wanted)
        assert 0 < sum(row[-1] is None for row in found) < len(found)


@pytest.mark.parametrize("options", [{}, {"nullValue": "1", "header": "TRUE"}])
def test_fields_are_converted_alike(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    """Each text in each type, alone on its line among good ones."""
    names = [column.name for column in parse_schema(TYPES)]
    lines = ["\ufeffheader"]
    for text, place in itertools.product(FIELDS, range(len(names))):
        lines.append(",".join(text if number == place else "" for number in range(len(names))))
    lines += ["", "  ", "\t", "1,2", ",".join("1" * (len(names) + 1)), '"a' + "," * (len(names) - 1)]
    file = tmp_path / "a.csv"
    file.write_bytes("\n".join(lines).encode() + b"\n,,,,,,,,\xff\xe2\x82z\n,,,,,,,,last")
    found, wanted = by_workers(file, TYPES, options), by_spark(spark, file, TYPES, options)
    assert comparable(found) == comparable(wanted)
    assert sum(row[-1] is None for row in found) > 100


LINES = [
    "ms,k,v,note", "1000,a,1,x", '2000,"b,c",2,"y"', "3000,a,oops,x", "4000,a", "", "x,a,5,z", '5000,"a",6,"q\\"r"',
    "9000,,7,", '12000,"a" ,8,x', "15000,ä,,x",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain and compressed files in folders that name a column, one of them empty."""
    data = tmp_path_factory.mktemp("csv")
    text = "\n".join(LINES).encode()
    contents = {
        "dt=1/a.csv": text,
        "dt=2/b.csv.gz": gzip.compress(text),
        "dt=2/c.csv": b"",
        "dt=3/d.csv": text + b"\n7",
    }
    for number, (name, content) in enumerate(contents.items()):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(content)
        os.utime(data / name, (FIRST_FILE_TIME + number,) * 2)
    return data


def run(spark: SparkSession, data: Path, checkpoint: Path, reader: str) -> dict[str, Any]:
    """Two transforms in one job, one of which does not read the column with a bad value."""
    sinks = {name: MemorySink(name) for name in ("wide", "narrow", "dlq")}
    dlq = {"sink": "dlq", "include_original": True}
    stream = {
        "format": "csv", "path": str(data), "schema": "ms BIGINT, k STRING, v INT, dt INT, note STRING", "scan": reader,
        "eventtime": {"column": "ms", "type": "unixtimestamp_ms", "strict": True}, "options": {"header": True},
    }  # fmt: skip
    queries = {
        "wide": "SELECT k, dt, sum(v) AS s, max(note) AS m, count(*) AS n FROM s "
        "GROUP BY tumblingwindow('ss', 10), k, dt",
        "narrow": "SELECT dt, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), dt",
    }
    pipeline = Pipeline.from_dict(
        {
            "streams": {"s": stream},
            "options": {
                "eventtime": {"enabled": True, "late_tolerance": "1h"}, "trigger": "available_now", "shards": 2,
                "checkpoint": str(checkpoint), "max_future_skew": "off",
            },
            "transforms": {
                name: {"sql": sql, "sink": name, "side_output": dict.fromkeys(KINDS, dlq)}
                for name, sql in queries.items()
            },
            "sinks": {name: {"format": "memory"} for name in sinks},
        },
        sinks=sinks,
    )  # fmt: skip
    assert (pipeline.plans[0].scan is not None) == (reader == "columnar")
    finish(pipeline.start(spark), drain=True)
    found: dict[str, Any] = {
        name: sorted(repr(row.asDict()) for rows in sinks[name]._batches.values() for row in rows) for name in queries
    }
    side = [json.loads(row[0]) for rows in sinks["dlq"]._batches.values() for row in rows]
    found["side"] = sorted(comparable_record({**each, "batch_id": 0}) for each in side)
    return found


def test_both_ways_give_the_same(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    found = run(spark, folder, tmp_path / "columnar", "columnar")
    wanted = run(spark, folder, tmp_path / "spark", "spark")
    assert found == wanted
    assert len(found["side"]) > 10
    assert found["narrow"]
