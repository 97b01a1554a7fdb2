"""The columnar scan against Spark's own reader: the same pipeline over the same files, batch by batch the same."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import FIRST_FILE_TIME, KINDS, Outcome, finish
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

SCHEMA = (
    "ts TIMESTAMP, ms BIGINT, k STRING, v BIGINT, i INT, x DOUBLE, ok BOOLEAN, d DATE, dec DECIMAL(10,2), folder INT"
)
JSON_SCHEMA = "ms BIGINT, at STRING, k STRING, v BIGINT, i INT, x DOUBLE, ok BOOLEAN, f FLOAT"
QUERIES = {
    "bare": "SELECT k, count(*) AS n, sum(v) AS s, max(x) AS m, window_start FROM s "
    "GROUP BY tumblingwindow('ss', 5), k",
    "where": "SELECT k, count(*) AS n FROM s WHERE v > 10 AND (k <> 'ä' OR x IS NULL) "
    "GROUP BY hoppingwindow('ss', 6, 2), k",
    "computed": "SELECT upper(k) AS u, i % 3 AS r, sum(v * 2) AS s, avg(x + 1) AS a, count(*) FILTER (WHERE ok) AS n "
    "FROM s GROUP BY sessionwindow('ss', 3), upper(k), i % 3",
    "guarded": "SELECT sum(v * 4611686018427387904) AS big, sum(CAST(k AS INT)) AS t, count(*) AS n FROM s "
    "GROUP BY tumblingwindow('ss', 5)",
    "many": "SELECT year(d) AS y, sum(hour(ts)) AS h, sum(datediff(d, DATE '2024-01-01')) AS dd, "
    "max(year(date_add(d, i))) AS da, max(ts + INTERVAL 90 MINUTES) AS t, sum(unix_millis(ts)) AS um, "
    "max(date_trunc('WEEK', ts)) AS w, "
    "max(concat(k, 'x')) AS c, sum(length(k)) AS l, max(replace(k, 'a', 'Σ')) AS r, sum(i % 7) AS m, "
    "avg(coalesce(x, 0)) AS a, sum(CASE WHEN dec > 1 THEN 1 ELSE 0 END) AS p, count(*) AS n "
    "FROM s WHERE k LIKE '%' OR v IN (1, 40) "
    "GROUP BY tumblingwindow('ss', 5), year(d)",
    "failing": "SELECT sum(i * i) AS a, sum(v % (v - 2)) AS b, max(CAST(k AS DOUBLE)) AS c, "
    "sum(i + 2147483647) FILTER (WHERE v / (v - 1) > 0) AS d, max(floor(x / 10)) AS f, "
    "max(floor(x)) FILTER (WHERE ok) AS g, count(*) AS n FROM s WHERE i - 4 >= 0 OR 1 / (v + 7) > 0 "
    "GROUP BY tumblingwindow('ss', 5)",
    "typed": "SELECT d, dec, folder, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), d, dec, folder",
    "union": "SELECT k, count(*) AS n, sum(v) AS s, sum(one) AS o FROM (SELECT k, v, CAST(k AS INT) AS one, ts FROM s "
    "WHERE v > 0 OR x > 1 UNION ALL SELECT upper(k), i, 1, ts FROM t) AS u WHERE k <> 'ä' "
    "GROUP BY tumblingwindow('ss', 5), k",
    "window join": "SELECT s.k, s.v, t.x, s.v + t.v AS both, s.v % (t.v - 2) AS m, window_start FROM s FULL JOIN t "
    "ON s.k = t.k AND s.i > 0 AND t.ok WINDOW HOPPING (SIZE 4 SECONDS, SLIDE 2 SECONDS)",
    "interval join": "SELECT s.v, t.v AS w, CAST(s.k AS INT) AS one FROM s LEFT JOIN t "
    "ON s.k = t.k AND t.ts BETWEEN s.ts - INTERVAL 1 SECOND AND s.ts + INTERVAL 1 SECOND AND s.v <> t.v",
    "sliding": "SELECT k, sum(v) AS s, trigger_time FROM s GROUP BY slidingwindow('ss', 3, 1) OVER (PARTITION BY k), k",
}


def made_table(seed: int, rows: int, *, plain: bool) -> pa.Table:
    """Rows out of order, some late, some without a time; `plain`: with columns missing and narrower types."""
    rng = random.Random(seed)
    micros = [seed * 4_000_000 + number * 40_000 - rng.randrange(9_000_000) for number in range(rows)]
    timed = [None if rng.random() < 0.05 else us for us in micros]
    columns: dict[str, pa.Array] = {
        "ts": pa.array(timed, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "ms": pa.array([None if us is None else us // 1000 for us in timed], pa.int64()),
        "k": pa.array([rng.choice([None, "a", "ä", "1", "NaN"]) for _ in micros], pa.string()),
        "v": pa.array([rng.choice([None, 1, 2, 40, -7]) for _ in micros], pa.int32() if plain else pa.int64()),
    }
    if not plain:
        columns |= {
            "i": pa.array([rng.choice([None, -4, 5, 2**31 - 1]) for _ in micros], pa.int32()),
            "x": pa.array([rng.choice([None, 0.5, float("nan"), -0.0, 1e300]) for _ in micros], pa.float64()),
            "ok": pa.array([rng.choice([None, True, False]) for _ in micros]),
            "d": pa.array([rng.choice([None, dt.date(1900, 1, 1), dt.date(2024, 2, 29)]) for _ in micros]),
            "dec": pa.array([rng.choice([None, 125, -5]) for _ in micros], pa.decimal128(10, 2)),
        }  # fmt: skip
    return pa.table(columns)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file a batch: whole ones, one with other columns, folders that name a column, one without rows."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(5):
        path = folder / f"folder={number % 3}" / ("a b%20c.parquet" if number == 2 else f"{number}.parquet")
        path.parent.mkdir(exist_ok=True)
        pq.write_table(made_table(number, 0 if number == 3 else 60, plain=number == 1), path, row_group_size=25)
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    return folder


@pytest.fixture(scope="module")
def flat(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in one folder: where two streams read a folder, Spark's reader does not give columns of its path."""
    folder = tmp_path_factory.mktemp("flat")
    for path in data.glob("*/*"):
        os.link(path, folder / path.name)
    return folder


def run(
    spark: SparkSession, data: Path, folder: Path, sql: str, *, reader: str, time: dict[str, Any], form: str = "parquet"
) -> Outcome:
    """The streams s and t are the same."""
    results, records = MemorySink("results"), MemorySink("dlq")
    dlq = {"sink": "dlq", "include_original": "count" in sql}
    stream = {
        "format": form, "path": str(data), "schema": SCHEMA if form == "parquet" else JSON_SCHEMA,
        "eventtime": time, "scan": reader, "max_record_bytes": 4000, "options": {"maxFilesPerTrigger": 1},
    }  # fmt: skip
    pipeline = Pipeline.from_dict(
        {
            "streams": {"s": stream, "t": stream},
            "options": {
                "eventtime": {"enabled": True, "late_tolerance": "2s"}, "trigger": "available_now", "shards": 2,
                "checkpoint": str(folder / reader), "max_future_skew": "off",
            },
            "transforms": {
                "q": {"sql": sql, "sink": "results", "side_output": dict.fromkeys(KINDS, dlq)}
            },
            "sinks": {"results": {"format": "memory"}, "dlq": {"format": "memory"}},
        },
        sinks={"results": results, "dlq": records},
    )  # fmt: skip
    assert (pipeline.plans[0].scan is not None) == (reader == "columnar")
    finish(pipeline.start(spark), drain=True)
    ledger = pipeline.checkpoint(pipeline.plans[0]).ledger
    entries = [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
    rows = {batch: [row.asDict() for row in got] for (batch, _), got in results._batches.items()}
    side = {batch: [json.loads(row[0]) for row in got] for (batch, _), got in records._batches.items()}
    return Outcome(rows, side, entries)


def comparable(outcome: Outcome) -> tuple[object, ...]:
    rows = {batch: sorted(map(repr, found)) for batch, found in outcome.rows.items()}
    counts = [(entry.accounting, entry.watermark_us, entry.side, entry.results) for entry in outcome.entries]
    side = {batch: sorted(map(comparable_record, found)) for batch, found in outcome.side.items()}
    return rows, side, counts


def comparable_record(record: dict[str, Any]) -> str:
    """Without the time of processing. The scan knows the group of a row without a time, Spark's way does not."""
    without = ["processing_time", *(["group_key"] if record["kind"] == "error" else [])]
    return json.dumps({name: value for name, value in record.items() if name not in without}, sort_keys=True)


@pytest.mark.parametrize("name", QUERIES)
def test_both_ways_give_the_same(spark: SparkSession, data: Path, flat: Path, tmp_path: Path, name: str) -> None:
    data = flat if name in ("union", "window join", "interval join") else data
    instants = {"column": "ts", "type": "timestamp", "strict": True}
    numbers = {"column": "ms", "type": "unixtimestamp_ms", "strict": True}
    time = numbers if name in ("where", "computed", "failing", "typed") else instants
    found = run(spark, data, tmp_path, QUERIES[name], reader="columnar", time=time)
    wanted = run(spark, data, tmp_path, QUERIES[name], reader="spark", time=time)
    for part, other in zip(comparable(found), comparable(wanted), strict=True):
        assert part == other
    assert sum(map(len, found.rows.values())) > 0


def test_damaged_files_are_error_rows_and_the_query_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(4):
        pq.write_table(made_table(number, 60, plain=False), folder / f"{number}.parquet", row_group_size=20)
    whole = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(whole[: len(whole) // 2])
    page = bytearray((folder / "2.parquet").read_bytes())
    page[len(page) // 3 : len(page) // 3 + 200] = bytes(200)
    (folder / "2.parquet").write_bytes(bytes(page))
    for number in range(4):
        os.utime(folder / f"{number}.parquet", (FIRST_FILE_TIME + number,) * 2)
    found = run(spark, folder, tmp_path, QUERIES["bare"], reader="columnar", time={"column": "ts"})
    assert [entry.accounting["error"] for entry in found.entries] == [0, 1, 1, 0, 0]
    assert [entry.accounting["in_"] for entry in found.entries][::3] == [60, 60]
    details = [str(record["error_detail"]) for record in found.all_side if record["kind"] == "error"]
    assert [f"{number}.parquet: " in text for number, text in zip((1, 2), details, strict=True)] == [True, True]


ODD = (
    "null", "true", "false", "0", "-1", "12", "127", "128", "1.5", "2.0", "1e3",
    "-0.0", "1e400", "9223372036854775808", '""', '"a"', '"\\u00e4\\n"', '"1"',
    '"1.5"', '"true"', '"NaN"', '"-INF"', '"Infinity"', "NaN",
    '"Inf"', '"+INF"', '"INF"', '"-Infinity"', '"+Infinity"', '"nan"', "Infinity", "-Infinity", "+INF", "-INF", "Inf",
    "-0", "9" * 1000, "9" * 1001, "-" + "1" * 1001, "0." + "1" * 999, "0." + "1" * 1000, "1e1001", "INF",
    "1" * 500 + "." + "1" * 501, "-0." + "1" * 998 + "e5", "nan", '"' + "9" * 1001 + '"',
    "[1, 2]", '{"b": {"c": 1.50}, "d": "x"}', "[]", "{}", "01", "1.", "'q'", "tru",
)  # fmt: skip
"""Values of every kind, for columns of every type."""
BROKEN = (
    "",
    "   ",
    "{",
    '{"ms": 1',
    "5",
    "null",
    '{"ms": 1} tail',
    '{"ms": 1}{"ms": 2}',
    "{'ms': 1}",
    '{"ms": 1,}',
    "\u00e4",
    '{"k": "a\tb"}',
    "[]",
    "[null]",
    '[{"ms": 1}]',
    '[{"ms": 1}, {"ms": 2}]',
    "true",
    '"x"',
    "\x00",
    '{"ms": 1, "q": ' + "[" * 999 + "]" * 999 + "}",
    '{"ms": 1, "q": ' + "[" * 1100 + "]" * 1100 + "}",
)
RAW = (
    b'\xef\xbb\xbf{"ms": 5, "k": "first"}', b'\xef\xbb\xbf{"ms": 6}', b'{"ms": 7, "k": "\xff"}', b"\xff\xfe", b"\xc3",
    b'{"k": "\xe2\x82", "ms": 8}', b'{"k": "\xf0\x9f\x98z", "ms": 8}', b"\xed\xa0\x80 \xf5\x80\x80 \xc0\xaf",
    b'{"ms": 9, "k": "' + b"x" * 5000 + b'"}', "ä😀".encode() * 1000, b" " * 6000, b'{"ms": 10}',
)  # fmt: skip
"""Lines that are not text, that are too long, and one that is blank."""


def json_lines(seed: int, count: int) -> list[str]:
    """Records with a time, each field now and then of a wrong type, and records that are none."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        fields = {
            "ms": str(number * 20 + seed),
            "at": f'"1970-01-01T00:00:0{number % 10}.5+00:00"',
            "k": '"a"',
            "v": str(number),
        }
        fields |= {
            name: rng.choice(ODD) for name in rng.sample(["k", "v", "i", "x", "ok", "f", "other"], rng.randrange(4))
        }
        record = "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
        lines.append(rng.choice(BROKEN) if rng.random() < 0.05 else record)
    return lines


@pytest.mark.parametrize("time", [{"column": "ms", "type": "unixtimestamp_ms"}, {"column": "at", "type": "iso8601"}])
def test_json_is_read_alike(spark: SparkSession, tmp_path: Path, time: dict[str, Any]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    files = {"a.json": "\n".join(json_lines(1, 600)) + "\n", "b.json": "\r\n".join(json_lines(2, 300)), "c.json": ""}
    for number, (name, text) in enumerate(files.items()):
        (folder / name).write_text(text, encoding="utf-8", newline="")
        os.utime(folder / name, (FIRST_FILE_TIME + number,) * 2)
    (folder / "d.json").write_bytes(b"\n".join(RAW))
    os.utime(folder / "d.json", (FIRST_FILE_TIME + len(files),) * 2)
    sql = "SELECT * FROM s"
    found = run(spark, folder, tmp_path, sql, reader="columnar", time=time | {"strict": True}, form="json")
    wanted = run(spark, folder, tmp_path, sql, reader="spark", time=time | {"strict": True}, form="json")
    for part, other in zip(comparable(found), comparable(wanted), strict=True):
        assert part == other
    assert found.entries[0].accounting["error"] > 100
