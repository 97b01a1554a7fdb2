"""The event-time types on real Spark: their SQL gives what their Arrow functions give, and never fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from windowpane.plan.eventtime.types import builtin_types

pytestmark = pytest.mark.spark

ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}
CASES: list[tuple[str, str, list[object]]] = [
    ("unixtimestamp_s", "BIGINT", [0, 1, -1, 2**62, None]),
    (
        "unixtimestamp_s",
        "DOUBLE",
        [0.3, 1.1, -0.5, 1_700_000_000.123456, -0.0000001, float("nan"), float("inf"), 1e300, None],
    ),
    (
        "unixtimestamp_s",
        "STRING",
        [
            "12",
            " -12.5 ",
            "+0.0000019",
            "-0.0000001",
            "1.7e9",
            "",
            " ",
            "x",
            "1.2.3",
            ".5",
            "5.",
            ".",
            "-",
            None,
            "9223372036854.775807",
            "9223372036854.775808",
            "9" * 30,
        ],
    ),
    ("unixtimestamp_ms", "STRING", ["1700000000123.4567", "-0.0001"]),
    ("unixtimestamp_us", "STRING", ["9223372036854775807", "9223372036854775808", "-9223372036854775808"]),
    (
        "iso8601",
        "STRING",
        [
            "1970-01-01T00:00:00Z",
            "1970-01-01",
            "1970-01-01 00:00:01",
            "1970-01-01T00:01",
            "  2024-02-29  ",
            None,
            "1970-01-01T01:00:00+01:00",
            "1969-12-31T19:00:00-0500",
            "1970-01-01T02:00:00+02",
            "2024-01-01T05:30+0530",
            "2024-01-01T05:30Z",
            "2024-01-01 05:30-03:30",
            "1969-12-31T23:59:59.999999999Z",
            "1970-01-01T00:00:00.1",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999Z",
            "2024-01-01T00:00:00-18:00",
            "2023-02-29",
            "2024-13-01",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01T00:00:00+19:00",
            "now",
            "",
            "2024-01-01T00:00:00+01:60",
            "2024-01-01T00:00:00.1234567890Z",
            "2024-01-01T",
            "2024",
            "12:00",
        ],
    ),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415  only where Spark is started

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.mark.parametrize(("name", "kind", "values"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_sql_and_arrow_agree(spark: Any, name: str, kind: str, values: list[object]) -> None:
    parser = builtin_types().resolve(name).parser
    assert parser.arrow is not None
    rows = spark.createDataFrame([(value,) for value in values], f"c {kind}")
    by_spark = [row[0] for row in rows.selectExpr(parser.spark_sql("c", kind)).collect()]
    by_arrow = parser.arrow(pa.array(values, ARROW[kind]))[0].to_pylist()
    assert dict(zip(values, by_spark, strict=True)) == dict(zip(values, by_arrow, strict=True))
