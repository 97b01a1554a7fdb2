"""Kafka to PostgreSQL with what goes wrong on the way: servers that restart, a process that is killed."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scripts.servers import connector_jars
from tests.servers.world import Broker, Database, Job, projected, routes_to
from windowpane.errors import SinkError
from windowpane.spark.result_channel import ResultChannel

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

SCHEMA = "k STRING, v BIGINT, ms BIGINT"
TIMED = {"column": "ms", "type": "unixtimestamp_ms", "strict": True}
QUERY = "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('ss', 10), k"
KILLED_BEFORE_ITS_LEDGER_ENTRY = """
import json, os, signal, sys
from pathlib import Path
from windowpane.runtime import Pipeline
from windowpane.checkpoint.ledger import Ledger

write = Ledger.write_all
def killed(self, entries, *versions):
    (entry,) = entries.values()
    if entry.batch_id == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, entries, *versions)
Ledger.write_all = killed
Pipeline.from_dict(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]).start().wait()
"""


KILLED_WHILE_RESULTS_WAIT = """
import json, os, signal, sys, time
from pathlib import Path
from windowpane.runtime import Pipeline
from windowpane.checkpoint.ledger import Ledger

write = Ledger.write_all
def killed(self, entries, *versions):
    (entry,) = entries.values()
    if entry.batch_id == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, entries, *versions)
    if entry.batch_id == 0:
        Path("written").touch()
        while not Path("stopped").exists():
            time.sleep(0.05)
Ledger.write_all = killed
Pipeline.from_dict(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]).start().wait()
"""
PATIENCE_SECONDS = 400
TWICE = "SELECT _window_id, _group_key, _emit_epoch FROM history GROUP BY 1, 2, 3 HAVING count(*) > 1"


@contextlib.contextmanager
def killed_process(script: str, job: Job, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with Spark of its own that runs the job, and kills itself."""
    given = folder / "settings.json"
    given.write_text(json.dumps(job.settings | {"spark": {"master": "local[2]", "jars": connector_jars()}}))
    process = subprocess.Popen([sys.executable, "-c", script, str(given), str(folder)], cwd=folder)
    try:
        yield process
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    finally:
        process.kill()


def settings(kafka: Broker, database: Database, topic: str, **sinks: Any) -> dict[str, Any]:
    transform = {
        "sql": QUERY + " EMIT ON UPDATE",
        "sink": ["totals", "history"],
        "allowed_lateness": "1m",
        "side_output": routes_to("dlq", "error", "late"),
    }
    return {
        "streams": {"t": kafka.stream(topic, SCHEMA, eventtime=TIMED, options={"maxOffsetsPerTrigger": 60})},
        "options": {"eventtime.enabled": True},
        "transforms": {"q": transform},
        "sinks": {
            "totals": database.sink("totals"),
            "history": database.sink("history", mode="append"),
            "dlq": kafka.sink(kafka.topic("dlq")),
        },
    } | sinks


def some_rows(seed: int, count: int, since: int = 0) -> list[dict[str, Any] | str]:
    """Out of order within 20 seconds; one in 20 is broken."""
    chance = random.Random(seed)
    rows: list[dict[str, Any] | str] = []
    for number in range(count):
        second = since + number / 4 + chance.uniform(0, 20)
        good = {"k": f"k{chance.randrange(5)}", "v": chance.randrange(100), "ms": round(second * 1000)}
        rows.append(good if chance.random() > 0.05 else json.dumps(good)[:-1])
    return rows


def totals_of(rows: list[dict[str, Any] | str]) -> dict[tuple[int, str], tuple[int, int]]:
    """What the query gives for rows that all count: by window and key the number of rows and the sum."""
    counts: Counter[tuple[int, str]] = Counter()
    sums: Counter[tuple[int, str]] = Counter()
    for row in rows:
        if isinstance(row, dict):
            group = (row["ms"] // 10_000 * 10, row["k"])
            counts[group] += 1
            sums[group] += row["v"]
    return {group: (counts[group], sums[group]) for group in counts}


def stored(database: Database, table: str = "totals") -> dict[tuple[int, str], tuple[int, int]]:
    found = database.rows(f"SELECT extract(epoch FROM window_start)::int AS at, k, n, s::int AS s FROM {table}")
    return {(row["at"], row["k"]): (row["n"], row["s"]) for row in found}


def test_killed_between_the_sink_and_its_ledger_entry(
    kafka: Broker, database: Database, spark: SparkSession, tmp_path: Path
) -> None:
    """The database has batch 1, the checkpoint does not: it is processed again, and every row is there once."""
    topic = kafka.topic("in", 2)
    rows = some_rows(7, 160)
    kafka.send(topic, rows[:80], partition=0)
    kafka.send(topic, rows[80:], partition=1)
    job = Job(tmp_path, settings(kafka, database, topic))
    with killed_process(KILLED_BEFORE_ITS_LEDGER_ENTRY, job, tmp_path):
        pass
    assert [entry.batch_id for entry in job.entries()] == [0]
    written = database.rows("SELECT max(batch_id) AS last FROM windowpane_batches WHERE NOT side")
    assert written == [{"last": 1}]
    before = database.rows("SELECT count(*) AS n FROM history")

    job.run(spark, drain=True)
    assert stored(database) == totals_of(rows)
    assert before[0]["n"] > 0
    assert database.rows(TWICE) == []
    finals = database.rows("SELECT * FROM history WHERE _is_final")
    assert projected(finals, "_window_id", "_group_key", "n", "s") == projected(
        database.rows("SELECT * FROM totals"), "_window_id", "_group_key", "n", "s"
    )


def test_results_wait_for_a_database_through_a_kill_and_another_run(
    kafka: Broker, database: Database, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away after batch 0. The process is killed when batch 1 waits for it, and batch 2 is not committed."""
    topic = kafka.topic("in", 2)
    rows = some_rows(3, 160)
    kafka.send(topic, rows[:80], partition=0)
    kafka.send(topic, rows[80:], partition=1)
    given = settings(kafka, database, topic)
    for name in ("totals", "history"):
        given["sinks"][name]["retry"] = {"attempts": 2, "pause": "100ms"}
    given["sinks"]["files"] = {"format": "json", "path": "out"}
    given["transforms"]["q"]["sink"] = ["totals", "history", "files"]
    job = Job(tmp_path, given)
    with contextlib.ExitStack() as away:
        with killed_process(KILLED_WHILE_RESULTS_WAIT, job, tmp_path) as child:
            wait_until(lambda: (tmp_path / "written").exists() or child.poll() is not None, PATIENCE_SECONDS)
            database.server.stop()
            away.callback(database.server.start)
            (tmp_path / "stopped").touch()
        assert [entry.batch_id for entry in job.entries()] == [0, 1]
        assert set(job.entries()[-1].undelivered_results) == {"totals", "history"}
        monkeypatch.setattr(ResultChannel, "ending_seconds", 0.5)
        with pytest.raises(SinkError, match="results of 2 batches wait since") as failed:
            job.run(spark)
        assert failed.value.code == "SINK_FAILED"
        assert [entry.batch_id for entry in job.entries()] == [0, 1, 2], "the query went on"
    assert database.rows("SELECT DISTINCT batch_id FROM windowpane_batches WHERE NOT side") == [{"batch_id": 0}]

    monkeypatch.undo()
    job.run(spark, drain=True)
    assert stored(database) == totals_of(rows)
    history = database.rows("SELECT extract(epoch FROM window_start)::int AS at, k, n, s::int AS s FROM history")
    lines = [json.loads(line) for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    written = [(line["window_start"], line["k"], line["n"], line["s"]) for line in lines]
    assert sorted(written) == sorted((as_instant(row["at"]), row["k"], row["n"], row["s"]) for row in history)
    assert database.rows(TWICE) == []
    assert job.entries()[-1].undelivered_results == {}


def as_instant(second: int) -> str:
    return dt.datetime.fromtimestamp(second, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_both_servers_restart_in_the_middle(
    kafka: Broker, database: Database, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.topic("in", 2)
    parts = [some_rows(seed, 60, since=15 * seed) for seed in range(4)]
    job = Job(tmp_path, settings(kafka, database, topic, options={"eventtime.enabled": True, "trigger": "200ms"}))
    running = job.start(spark)
    try:
        kafka.send(topic, parts[0])
        wait_until(lambda: read(job) == 60)

        database.server.stop()
        kafka.send(topic, parts[1], partition=1)
        time.sleep(3)
        database.server.start()
        wait_until(lambda: read(job) == 120)

        kafka.server.stop()
        time.sleep(3)
        kafka.server.start()
        kafka.send(topic, parts[2])
        kafka.send(topic, parts[3], partition=1)
        wait_until(lambda: read(job) == 240)
        assert running.active
    finally:
        running.drain() if running.active else running.stop()
    rows = [row for part in parts for row in part]
    assert stored(database) == totals_of(rows)
    broken = [row for row in rows if isinstance(row, str)]
    dlq = kafka.read(job.settings["sinks"]["dlq"]["options"]["topic"])
    assert Counter(message.value["original_event"]["_corrupt_record"] for message in dlq) == Counter(broken)
    totals = job.entries()[-1].totals
    assert (totals["in_"], totals["error"], totals["late"]) == (240, len(broken), 0)
    assert totals["aggregated"] == 240 - len(broken)


def read(job: Job) -> int:
    entries = job.entries()
    return entries[-1].totals["in_"] if entries else 0


def wait_until(holds: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "this has not come about"
        time.sleep(0.2)
