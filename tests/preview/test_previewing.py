"""`windowpane preview`: results, windows that the sample leaves open, and the account, without Spark."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app
from windowpane.cli.preview import watch_pipeline
from windowpane.cli.report import Output

PIPELINE = '''\
[streams.bids]
format = "json"
path = "in"
schema = "auction BIGINT, price BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_s", strict = true }

[tables.names]
format = "csv"
path = "names.csv"
schema = "id BIGINT, name STRING"
options = { header = true }

[options]
eventtime = { enabled = true }

[transforms.counts]
sql_file = "counts.sql"
sink = "results"

[transforms.named]
sql = """
SELECT name, count(*) AS n FROM bids JOIN names ON bids.auction = names.id
GROUP BY tumblingwindow('ss', 10), name
"""
sink = "results"

[sinks.results]
format = "json"
path = "out"
'''
SQL = "SELECT window_start, auction, count(*) AS n FROM bids WHERE price > 0 GROUP BY tumblingwindow('ss', 10), auction"
START = 1_767_225_600


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    rows: list[object] = [{"auction": at % 2, "price": at % 5, "ts": START + at} for at in range(50)]
    rows.insert(45, {"auction": 9, "price": 1, "ts": START})
    lines = [json.dumps(row) for row in rows]
    lines.insert(10, '{"auction": 1')
    (tmp_path / "in" / "a.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "names.csv").write_text('id,name\n0,"zero, or none"\n1,one\n', encoding="utf-8")
    (tmp_path / "counts.sql").write_text(SQL, encoding="utf-8")
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path / "pipeline.toml"


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, result.stdout, result.stderr


def previewed(*args: str) -> list[dict[str, Any]]:
    code, out, _ = run("preview", *args, "--json")
    assert code == 0, out
    found: list[dict[str, Any]] = json.loads(out)["transforms"]
    return found


def test_results_and_account(pipeline: Path) -> None:
    counts, named = previewed(str(pipeline))
    assert counts["rows"] == {"bids": 52}
    assert counts["whole_stream"]
    account = {name: count for name, count in counts["account"].items() if count}
    assert account == {"in": 52, "aggregated": 40, "filtered": 10, "late": 1, "error": 1}
    assert counts["results"][0] == {"window_start": "2026-01-01T00:00:00Z", "auction": 1, "n": 4}
    assert {row["window_start"] for row in counts["results_of_open_windows"]} == {"2026-01-01T00:00:40Z"}
    assert [(record["kind"], record["reason"]) for record in counts["side"]] == [
        ("error", "decode_error"), ("late", "allowed_lateness_exceeded"),
    ]  # fmt: skip
    assert {row["name"] for row in named["results"]} == {"zero, or none", "one"}
    assert named["account"]["unmatched"] == 1
    assert not (pipeline.parent / "out").exists()


def test_text(pipeline: Path) -> None:
    code, out, err = run("preview", str(pipeline), "--transform", "counts")
    assert (code, err) == (0, "")
    assert out.startswith("counts: 52 rows of bids (all there are), in ")
    assert "results of windows that are still open where the sample ends (they may change):" in out
    assert "rows: 40 aggregated, 10 filtered, 1 late, 1 error; adds up: 52 = 40 + 10 + 1 + 1" in out
    assert "named" not in out


def test_rows_limits_the_sample(pipeline: Path) -> None:
    (counts,) = previewed(str(pipeline), "--transform", "counts", "--rows", "20")
    assert (counts["rows"], counts["whole_stream"]) == ({"bids": 20}, False)


def test_files_without_a_declared_schema(pipeline: Path) -> None:
    (pipeline.parent / "in" / "a.json").unlink()
    rows = [{"auction": at, "price": 1, "ts": START + at} for at in range(30)]
    pq.write_table(pa.Table.from_pylist(rows), pipeline.parent / "in" / "a.parquet")
    text = PIPELINE.replace(
        'format = "json"\npath = "in"\nschema = "auction BIGINT, price BIGINT, ts BIGINT"\n',
        'format = "parquet"\npath = "in"\n',
    )
    pipeline.write_text(text, encoding="utf-8")
    (counts,) = previewed(str(pipeline), "--transform", "counts")
    assert counts["account"]["aggregated"] == 30


def test_nested_json(pipeline: Path) -> None:
    lines = [json.dumps({"a": {"id": at % 2, "tags": ["x", 1]}, "ts": START + at}) for at in range(20)]
    lines.append(json.dumps({"a": {"id": "none"}, "ts": START}))
    (pipeline.parent / "in" / "a.json").write_text("\n".join(lines), encoding="utf-8")
    text = PIPELINE.replace(
        "auction BIGINT, price BIGINT, ts BIGINT", "a STRUCT<id: BIGINT, tags: ARRAY<STRING>>, ts BIGINT"
    )
    pipeline.write_text(text, encoding="utf-8")
    (pipeline.parent / "counts.sql").write_text(
        "SELECT a.id AS id, a.tags[1] AS t, count(*) AS n FROM bids GROUP BY tumblingwindow('ss', 10), a.id, a.tags[1]"
    )
    (counts,) = previewed(str(pipeline), "--transform", "counts")
    assert counts["account"]["error"] == 1
    assert counts["results"][0] == {"id": 0, "t": "1", "n": 5}


def test_what_only_spark_can_do_is_named(pipeline: Path) -> None:
    (pipeline.parent / "counts.sql").write_text(SQL.replace("price > 0", "soundex(auction) = 'x'"))
    code, out, err = run("preview", str(pipeline), "--transform", "counts")
    assert (code, out) == (2, "")
    assert err.startswith("[NEEDS_SPARK] transform `counts` cannot be previewed without Spark: ")
    pipeline.write_text(PIPELINE.replace("ts BIGINT", "ts BIGINT, at TIMESTAMP"), encoding="utf-8")
    (pipeline.parent / "counts.sql").write_text(SQL.replace("price > 0", "at IS NULL"))
    code, _, err = run("preview", str(pipeline), "--transform", "counts")
    assert (code, err.splitlines()[0]) == (
        2, "[NEEDS_SPARK] column `at` is TIMESTAMP, and only Spark reads TIMESTAMP from JSON",
    )  # fmt: skip
    assert f"  at {pipeline}:1 key `streams.bids`" in err


def test_an_empty_stream(pipeline: Path) -> None:
    (pipeline.parent / "in" / "a.json").unlink()
    code, _, err = run("preview", str(pipeline))
    assert (code, err.splitlines()[0]) == (2, "[NO_ROWS] there are no files in `in`")


class Printed(Output):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        if len(self.texts) == 2:
            raise KeyboardInterrupt
        self.texts.append(text)


def test_watch_runs_again_when_the_sql_changes(pipeline: Path) -> None:
    out = Printed()
    watching = threading.Thread(target=lambda: watch_pipeline(pipeline, "counts", 1000, out, as_json=False))
    watching.start()
    deadline = time.monotonic() + 60
    while not out.texts and time.monotonic() < deadline:
        time.sleep(0.05)
    (pipeline.parent / "counts.sql").write_text("SELECT nothing FROM bids", encoding="utf-8")
    while len(out.texts) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert out.texts[1].startswith("[")
    (pipeline.parent / "counts.sql").write_text(SQL, encoding="utf-8")
    watching.join(60)
    assert not watching.is_alive()
    assert "adds up" in out.texts[0]
