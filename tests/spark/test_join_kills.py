"""Joins of streams, killed with SIGKILL in the middle and started again: the files are those of the harness."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.torture import FIRST_FILE_TIME, kill_at, run_to_end
from windowpane.testing import Harness

pytestmark = pytest.mark.spark

FILES, ROWS = 5, 60
STREAM = """
[streams.{name}]
format = "json"
path = "{name}"
schema = "ts BIGINT, k STRING, {value} BIGINT"
eventtime = {{ column = "ts", type = "unixtimestamp_ms", strict = true }}
options = {{ maxFilesPerTrigger = 1 }}
"""
PIPELINE = """
[options]
eventtime = { enabled = true, late_tolerance = "5s" }
max_future_skew = "off"
checkpoint = "state"
trigger = "available_now"
shards = 2
[spark]
master = "local[2]"
"""
TRANSFORM = """
[transforms.{name}]
sql = '''{sql}'''
sink = "{name}_results"
side_output.unmatched = {{ sink = "{name}_alone", include_original = true }}
side_output.late = {{ sink = "{name}_alone" }}
[sinks.{name}_results]
format = "json"
path = "{name}_results"
[sinks.{name}_alone]
format = "json"
path = "{name}_alone"
"""
QUERIES = {
    "q": "SELECT window_start, a.k, count(*) AS n, sum(v * w) AS p FROM a LEFT JOIN b ON a.k = b.k AND v <> w "
    "GROUP BY hoppingwindow('ss', 4, 2), a.k",
    "i": "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - 500 AND a.ts + 1500",
    "m": "SELECT a.k, v, n, w FROM a JOIN (SELECT k, max(v) AS top, count(*) AS n FROM a GROUP BY k, "
    "tumblingwindow('ss', 4)) AS t ON a.k = t.k AND v = top JOIN b ON b.w = v WINDOW TUMBLING (SIZE 4 SECONDS)",
}
"""The last one joins a stream with results of a window over the same stream, and both with another stream."""


def rows_of(stream: str) -> list[list[dict[str, Any]]]:
    """Per file: rows of two seconds, some with a NULL key or a key that the other stream lacks."""
    rng = random.Random(stream)  # repeatable is the point
    keys = ["x", "y", "z", stream, None]
    value = "v" if stream == "a" else "w"
    return [
        [{"ts": 2000 * file + rng.randrange(2000), "k": rng.choice(keys), value: rng.randrange(5)} for _ in range(ROWS)]
        for file in range(FILES)
    ]


def make_job(folder: Path) -> None:
    text = PIPELINE
    for stream, value in (("a", "v"), ("b", "w")):
        (folder / stream).mkdir(parents=True)
        for number, rows in enumerate(rows_of(stream)):
            path = folder / stream / f"{number:06}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(path, (FIRST_FILE_TIME + number,) * 2)
        text = STREAM.format(name=stream, value=value) + text
    text += "".join(TRANSFORM.format(name=name, sql=sql) for name, sql in QUERIES.items())
    (folder / "pipeline.toml").write_text(text, encoding="utf-8")


def written(folder: Path, sink: str) -> list[dict[str, Any]]:
    files = [path for path in (folder / sink).glob("*.json") if not path.name.startswith((".", "_"))]
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def expected(sql: str) -> tuple[Counter[str], int]:
    """Results, and the number of unmatched rows. No row is late, so how rows are cut into batches does not matter."""
    time = {"column": "ts", "type": "unixtimestamp_ms"}
    streams = {name: {"schema": f"ts BIGINT, k STRING, {value} BIGINT", "eventtime": time}
               for name, value in (("a", "v"), ("b", "w"))}  # fmt: skip
    harness = Harness(sql, streams=streams, options={"eventtime.enabled": True, "max_future_skew": "off"}, now=0)
    steps = [harness.push([row for file in rows_of(name) for row in file], name) for name in ("a", "b")]
    steps.append(harness.end())
    results = Counter(shown(row) for step in steps for row in step.rows)
    return results, sum(account.unmatched for step in steps for account in (step.accounting, *step.stages.values()))


def shown(row: dict[str, Any]) -> str:
    """By values that both sides write alike; the window is left out, NULLs too, as in JSON."""
    return repr(sorted((name, value) for name, value in row.items() if name != "window_start" and value is not None))


def test_window_and_interval_join_after_kills(tmp_path: Path) -> None:
    make_job(tmp_path)
    killed = [kill_at(tmp_path, batch, 0.4, whole_group=True) for batch in (1, 3)]
    assert any(killed)
    run_to_end(tmp_path)
    for name, sql in QUERIES.items():
        results, unmatched = expected(sql)
        assert Counter(shown(row) for row in written(tmp_path, f"{name}_results")) == results, name
        alone = written(tmp_path, f"{name}_alone")
        assert Counter(record["kind"] for record in alone) == Counter(unmatched=unmatched), name
        assert unmatched > 0
        originals = [record["original_event"] for record in alone]
        assert all("ts" in each for each in originals if each is not None)
        assert all(originals) or name == "m"  # results of a window are no events
