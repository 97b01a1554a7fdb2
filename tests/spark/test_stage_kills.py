"""Windows over windows and joins of streams on Spark, killed with SIGKILL in the middle and started again.

All queries are in one pipeline: starting Spark takes most of the time. What they should give is known from the harness.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.torture import FIRST_FILE_TIME, kill_at, run_to_end
from windowpane.checkpoint.ledger import Entry
from windowpane.cli.status import show_status
from windowpane.plan.shared_folds import share_folds
from windowpane.runtime import Pipeline
from windowpane.testing import Harness

pytestmark = pytest.mark.spark

Row = dict[str, Any]
SCHEMAS = {
    "s": "ts BIGINT, k STRING, j STRING, v BIGINT",
    "a": "ts BIGINT, k STRING, v BIGINT",
    "b": "ts BIGINT, k STRING, w BIGINT",
}
TIME = {"column": "ts", "type": "unixtimestamp_ms"}
OPTIONS = {"eventtime.enabled": True, "eventtime.late_tolerance": "2s", "max_future_skew": "off"}
PER_SECOND = """SELECT k, j, sum(v) AS total, 6 / min(v) AS share, count(*) AS n FROM s GROUP BY k, j
HAVING count(*) < 9 WINDOW TUMBLING (SIZE 1 SECOND)"""
CHAINS = {
    "q": f"""WITH second AS ({PER_SECOND}),
ten AS (SELECT k, sum(total) AS total, max(share) AS share, sum(n) AS n FROM second WHERE total > 3 GROUP BY k
  WINDOW TUMBLING (SIZE 10 SECONDS))
SELECT k, upper(k) AS u, sum(total) AS total, max(share) AS share, sum(n) AS n, window_start FROM ten GROUP BY k
WINDOW HOPPING (SIZE 30 SECONDS, SLIDE 10 SECONDS)""",
    "p": f"""SELECT k, total, place, window_start FROM (
  SELECT k, total, window_start, row_number() OVER (PARTITION BY window_start ORDER BY total DESC, k) AS place FROM (
    SELECT k, sum(total) AS total, window_start, window_end FROM (
      SELECT k, j, total, rank() OVER (PARTITION BY k ORDER BY total DESC, j) AS best FROM ({PER_SECOND}) AS second
      QUALIFY best = 1) AS top
    GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS)) AS ten) AS ranked WHERE place <= 2""",
    "r": f"""SELECT n, count(*) AS groups, sum(total) AS total, window_start FROM ({PER_SECOND}) AS second
GROUP BY n WINDOW TUMBLING (SIZE 10 SECONDS)""",
}
"""With one shuffle; with Top-1 of each key inside, and Top-2 of each window outside; and with a second shuffle."""
WINDOWS = {
    "t": "SELECT k, sum(v) AS total, count(*) AS n, window_start FROM s WHERE j = 'a' GROUP BY k "
    "WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 3 SECONDS)",
    "u": "SELECT j, max(v) AS top, first(k) AS k, window_start FROM s GROUP BY j WINDOW SESSION (GAP 2 SECONDS)",
    "x": "SELECT k, j, max(v) AS top, count(*) AS n, window_start FROM s GROUP BY k, j "
    "WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 4 SECONDS)",
}
"""In one job with the chains: all of them read the same stream. The last one shares its fold with the chains."""
JOINS = {
    "w": "SELECT window_start, a.k, count(*) AS n, sum(v * w) AS p FROM a LEFT JOIN b ON a.k = b.k AND v <> w "
    "GROUP BY hoppingwindow('ss', 4, 2), a.k",
    "i": "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - 500 AND a.ts + 1500",
    "m": "SELECT a.k, v, n, w FROM a JOIN (SELECT k, max(v) AS top, count(*) AS n FROM a GROUP BY k, "
    "tumblingwindow('ss', 4)) AS t ON a.k = t.k AND v = top JOIN b ON b.w = v WINDOW TUMBLING (SIZE 4 SECONDS)",
    "y": "SELECT 'few' AS what, k, count(*) AS n FROM a GROUP BY k, tumblingwindow('ss', 1) "
    "UNION ALL SELECT 'many', k, sum(w) FROM b GROUP BY k, hoppingwindow('ss', 6, 3) "
    "UNION ALL SELECT 'pairs', a.k, v + w FROM a JOIN b ON a.k = b.k AND v = w "
    "WINDOW TUMBLING (SIZE 2 SECONDS)",
    "z": "SELECT window_start, w, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY tumblingwindow('ss', 4), w",
}
"""`m` joins a stream with results of a window over the same stream, and both with another stream. `y` unites results of
windows and of a join at the top level.
"""
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "i": {"dedupe": {"key": ["v"], "within": "300ms"}},
    "m": {"dedupe": {"key": ["v"], "within": "300ms"}},
    "z": {"limits": {"max_groups": 3}},
}
"""Only stream a has the column v, and it is not the key of the join: rows of a meet by it one shuffle before."""
STREAM = """
[streams.{name}]
format = "json"
path = "{name}"
options = {{ maxFilesPerTrigger = 1 }}
schema = "{schema}"
eventtime = {{ column = "ts", type = "unixtimestamp_ms", strict = true }}
"""
PIPELINE = """
[options]
eventtime = { enabled = true, late_tolerance = "2s" }
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
side_output.error = {{ sink = "{name}_side" }}
side_output.late = {{ sink = "{name}_side" }}
side_output.unmatched = {{ sink = "{name}_side", include_original = true }}
side_output.duplicate = {{ sink = "{name}_side", include_original = true }}
side_output.evicted = {{ sink = "{name}_side" }}
[sinks.{name}_results]
format = "json"
path = "{name}_results"
[sinks.{name}_side]
format = "json"
path = "{name}_side"
"""
FILES = 4


def rows_of(stream: str) -> list[list[Row]]:
    """Per file. Those of `s` are partly late; those of `a` and `b` have NULL keys and keys that the other one lacks."""
    rng = random.Random(stream)  # repeatable is the point
    return [[_row(rng, stream, file) for _ in range(80 if stream == "s" else 60)] for file in range(FILES)]


def _row(rng: random.Random, stream: str, file: int) -> Row:
    if stream == "s":
        ts = 12_000 * file + rng.randrange(-6000, 12_000)
        return {"ts": ts, "k": f"k{ts % 3}", "j": rng.choice("ab"), "v": rng.randrange(6)}
    key, value = rng.choice(["x", "y", "z", stream, None]), "v" if stream == "a" else "w"
    return {"ts": 2000 * file + rng.randrange(2000), "k": key, value: rng.randrange(5)}


def make_job(folder: Path) -> None:
    for stream in SCHEMAS:
        (folder / stream).mkdir(parents=True)
        for number, rows in enumerate(rows_of(stream)):
            path = folder / stream / f"{number:06}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    parts = [STREAM.format(name=name, schema=schema) for name, schema in SCHEMAS.items()]
    parts += [PIPELINE, *(TRANSFORM.format(name=name, sql=sql) for name, sql in {**CHAINS, **WINDOWS, **JOINS}.items())]
    for name, settings in SETTINGS.items():
        for table, values in settings.items():
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
            parts += [f"[transforms.{name}.{table}]\n", *lines]
    (folder / "pipeline.toml").write_text("".join(parts), encoding="utf-8")


def written(folder: Path, sink: str) -> list[Row]:
    files = [path for path in (folder / sink).glob("*.json") if not path.name.startswith((".", "_"))]
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def counted(rows: Iterable[Mapping[str, object]]) -> Counter[str]:
    """By values that both sides write alike: windows and NULLs are left out."""
    kept = [{name: row[name] for name in sorted(row) if name != "window_start"} for row in rows]
    return Counter(repr([item for item in row.items() if item[1] is not None]) for row in kept)


def kinds(records: Iterable[Mapping[str, object]]) -> Counter[tuple[object, object]]:
    return Counter((record["kind"], record["reason"]) for record in records)


def test_kills_of_windows_over_windows_and_of_joins(tmp_path: Path) -> None:
    make_job(tmp_path)
    for batch, delay in ((1, 0.3), (2, 0.9)):
        assert kill_at(tmp_path, batch, delay, whole_group=True)
    run_to_end(tmp_path)
    for name, sql in {**CHAINS, **WINDOWS}.items():
        check_chain(tmp_path, name, sql)
    for name, sql in JOINS.items():
        check_join(tmp_path, name, sql)
    shown = json.loads(show_status(tmp_path / "pipeline.toml", as_json=True))["transforms"]
    stages = {name: sorted(shown[name]["stages"]) for name in CHAINS}
    assert stages == {"q": ["window_2", "window_3"], "p": ["window_2"], "r": ["window_2"]}
    shared = {name: each.get("job") for name, each in shown.items()}
    assert shared == dict.fromkeys([*CHAINS, *WINDOWS], "s") | dict.fromkeys(JOINS)
    folds = share_folds({plan.transform: plan for plan in Pipeline.from_toml(tmp_path / "pipeline.toml").plans}).folds
    assert [set(fold.members) for fold in folds] == [{"p", "q", "r", "x"}]
    assert not list(tmp_path.glob("state/[pqrtux]/spark*")), "one Spark checkpoint for all of them"
    assert "window_3" in show_status(tmp_path / "pipeline.toml", as_json=False)


def check_chain(folder: Path, name: str, sql: str) -> None:
    """Results, side rows, and the account of each window in every micro-batch."""
    harness = Harness(sql, streams={"s": {"schema": SCHEMAS["s"], "eventtime": TIME}}, options=OPTIONS)
    steps = [*map(harness.push, rows_of("s")), harness.end()]
    assert counted(written(folder, f"{name}_results")) == counted(row for step in steps for row in step.rows), name
    side = kinds(record for step in steps for record in step.side)
    assert kinds(written(folder, f"{name}_side")) == side, name
    if name in CHAINS:
        assert {kind for kind, _ in side} == ({"late", "error"} if name == "q" else {"late"})
    for number, (entry, step) in enumerate(zip(ledger_of(folder, name), steps, strict=True)):
        assert entry.accounting == step.accounting.as_dict(), number
        assert entry.stages == {stage: account.as_dict() for stage, account in step.stages.items()}, number


def check_join(folder: Path, name: str, sql: str) -> None:
    """Results and side rows. No row is late, so only the order of rows matters, and how they are cut does not."""
    streams = {stream: {"schema": SCHEMAS[stream], "eventtime": TIME} for stream in ("a", "b")}
    harness = Harness(sql, streams=streams, options=OPTIONS, transform=SETTINGS.get(name, {}), now=0)
    files = {stream: rows_of(stream) for stream in streams}
    steps = [harness.push(files[stream][file], stream) for file in range(FILES) for stream in streams]
    steps.append(harness.end())
    assert counted(written(folder, f"{name}_results")) == counted(row for step in steps for row in step.rows), name
    alone = written(folder, f"{name}_side")
    assert kinds(alone) == kinds(record for step in steps for record in step.side), name
    more = {"dedupe": "duplicate", "limits": "evicted"}
    assert {record["kind"] for record in alone} == {"unmatched", *(more[each] for each in SETTINGS.get(name, {}))}
    originals = [record["original_event"] for record in alone if record["kind"] != "evicted"]
    assert all("ts" in each for each in originals if each is not None)
    assert all(originals) or name == "m"  # results of a window are no events


def ledger_of(folder: Path, name: str) -> Sequence[Entry]:
    pipeline = Pipeline.from_toml(folder / "pipeline.toml")
    (plan,) = [plan for plan in pipeline.plans if plan.transform == name]
    ledger = pipeline.checkpoint(plan).ledger
    return [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
