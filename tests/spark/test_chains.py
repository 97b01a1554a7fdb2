"""Windows over windows on Spark, killed with SIGKILL and started again: with one shuffle, and with a second one."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from bench.torture import FIRST_FILE_TIME, kill_at, run_to_end
from tests.spark.jobs import counted
from windowpane.checkpoint.ledger import Entry
from windowpane.cli.status import show_status
from windowpane.runtime import Pipeline
from windowpane.testing import Harness

pytestmark = pytest.mark.spark

SCHEMA = "ts BIGINT, k STRING, j STRING, v BIGINT"
PER_SECOND = """SELECT k, j, sum(v) AS total, 6 / min(v) AS share, count(*) AS n FROM s GROUP BY k, j
HAVING count(*) < 9 WINDOW TUMBLING (SIZE 1 SECOND)"""
QUERIES = {
    "q": f"""WITH second AS ({PER_SECOND}),
ten AS (SELECT k, sum(total) AS total, max(share) AS share, sum(n) AS n FROM second WHERE total > 3 GROUP BY k
  WINDOW TUMBLING (SIZE 10 SECONDS))
SELECT k, upper(k) AS u, sum(total) AS total, max(share) AS share, sum(n) AS n, window_start FROM ten GROUP BY k
WINDOW HOPPING (SIZE 30 SECONDS, SLIDE 10 SECONDS)""",
    "r": f"""SELECT n, count(*) AS groups, sum(total) AS total, window_start FROM ({PER_SECOND}) AS second
GROUP BY n WINDOW TUMBLING (SIZE 10 SECONDS)""",
}
PIPELINE = f"""
[streams.s]
format = "json"
path = "data"
options = {{ maxFilesPerTrigger = 1 }}
schema = "{SCHEMA}"
eventtime = {{ column = "ts", type = "unixtimestamp_ms" }}
[options]
eventtime = {{ enabled = true, late_tolerance = "2s" }}
max_future_skew = "off"
checkpoint = "state"
trigger = "available_now"
shards = 2
[spark]
master = "local[2]"
"""
FILES = 4


def transform(name: str) -> str:
    return f"""
[transforms.{name}]
sql = '''{QUERIES[name]}'''
sink = "{name}"
side_output.error = {{ sink = "dlq_{name}" }}
[sinks.{name}]
format = "json"
path = "{name}"
[sinks.dlq_{name}]
format = "json"
path = "dlq_{name}"
"""


def rows_of(file: int) -> list[dict[str, object]]:
    rng = random.Random(file)  # repeatable is the point
    times = [12_000 * file + rng.randrange(-3000, 12_000) for _ in range(80)]
    return [{"ts": ts, "k": f"k{ts % 3}", "j": rng.choice("ab"), "v": rng.randrange(0, 6)} for ts in times]


def make_job(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    for number in range(FILES):
        path = folder / "data" / f"{number:06}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(number)), encoding="utf-8")
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    (folder / "pipeline.toml").write_text(PIPELINE + "".join(map(transform, QUERIES)), encoding="utf-8")
    return folder


def output(folder: Path) -> dict[str, Counter[str]]:
    """What each sink got, without the machine's clock."""
    found = {}
    for sink in (*QUERIES, *(f"dlq_{name}" for name in QUERIES)):
        lines = [line for path in (folder / sink).glob("part-*") for line in path.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
        found[sink] = counted([row | {"processing_time": None} for row in rows])
    return found


def test_kills_of_windows_over_windows(tmp_path: Path) -> None:
    calm, killed = make_job(tmp_path / "calm"), make_job(tmp_path / "killed")
    run_to_end(calm)
    for batch, delay in ((1, 0.3), (2, 0.9)):
        assert kill_at(killed, batch, delay, whole_group=True)
    run_to_end(killed)
    assert output(killed) == output(calm)
    for name in QUERIES:
        check_against_harness(calm, name)
    shown = json.loads(show_status(killed / "pipeline.toml", as_json=True))["transforms"]
    stages = {name: sorted(each["stages"]) for name, each in shown.items()}
    assert stages == {"q": ["window_2", "window_3"], "r": ["window_2"]}
    assert "window_3" in show_status(killed / "pipeline.toml", as_json=False)


def check_against_harness(folder: Path, name: str) -> None:
    """Results, and the account of each window over all micro-batches."""
    stream = {"schema": SCHEMA, "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
    options = {"eventtime.enabled": True, "eventtime.late_tolerance": "2s", "max_future_skew": "off"}
    harness = Harness(QUERIES[name], streams={"s": stream}, options=options)
    steps = [*(harness.push(rows_of(number)) for number in range(FILES)), harness.end()]
    wanted = [row for step in steps for row in step.rows]
    lines = [line for path in (folder / name).glob("part-*") for line in path.read_text().splitlines()]
    assert Counter(map(_key, map(json.loads, lines))) == Counter(map(_key, wanted))
    entries = ledger_of(folder, name)
    for number, (entry, step) in enumerate(zip(entries, steps, strict=True)):
        assert entry.accounting == step.accounting.as_dict(), number
        assert entry.stages == {stage: account.as_dict() for stage, account in step.stages.items()}, number


def _key(row: dict[str, object]) -> str:
    return json.dumps([row.get("k"), row.get("n"), row["total"], row.get("groups"), row.get("share")])


def ledger_of(folder: Path, name: str) -> list[Entry]:
    pipeline = Pipeline.from_toml(folder / "pipeline.toml")
    (plan,) = [plan for plan in pipeline.plans if plan.transform == name]
    ledger = pipeline.checkpoint(plan).ledger
    return [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
