"""A query whose change needs a hand-over, on Spark: both plans side by side give what they give in the harness."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Query, counted, finish
from windowpane.checkpoint.restoring import Origin
from windowpane.checkpoint.savepoint_asking import get_savepoint
from windowpane.connectors.sinks import MemorySink
from windowpane.errors import StateError
from windowpane.runtime import Pipeline
from windowpane.runtime.rescaling import Rescale
from windowpane.runtime.savepoints import start_from
from windowpane.testing.hand_over import HandOver
from windowpane.time import from_datetime

pytestmark = pytest.mark.spark

SCHEMA = "ts BIGINT, k STRING, v BIGINT"
LAG = {"eventtime.late_tolerance": "2s"}
BASE = Query(
    "SELECT window_start, k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 4)", {"s": SCHEMA}, LAG
)  # fmt: skip
WHERE = replace(BASE, sql=BASE.sql.replace("FROM s", "FROM s WHERE v > 3"))
SLIDING = "SELECT trigger_time, k, count(*) AS n, sum(v) AS s FROM s GROUP BY k, slidingwindow('ss', {})"
COUNTS = "SELECT k, sum(v) AS s, count(*) AS n FROM s GROUP BY k, countwindow({})"


def changed(query: Query, old: str, new: str, **transform: Any) -> Query:
    return replace(query, sql=query.sql.replace(old, new), transform=transform)


@dataclass(frozen=True)
class Case:
    old: Query
    new: Query


CASES = {
    "an aggregate more": Case(BASE, changed(BASE, "AS n", "AS n, sum(v) AS s, max(v) AS m")),
    "another WHERE": Case(BASE, WHERE),
    "keys": Case(BASE, changed(BASE, "k, count(*) AS n FROM s GROUP BY k", "k, v, count(*) AS n FROM s GROUP BY k, v")),
    "window": Case(changed(BASE, "tumblingwindow('ss', 4)", "hoppingwindow('ss', 6, 3)"),
                   changed(BASE, "tumblingwindow('ss', 4)", "hoppingwindow('ss', 10, 5)")),
    "sessions": Case(changed(BASE, "tumblingwindow('ss', 4)", "sessionwindow('ss', 2)"),
                     changed(BASE, "tumblingwindow('ss', 4)", "sessionwindow('ss', 3)")),
    "sliding": Case(changed(BASE, BASE.sql, SLIDING.format(2)), changed(BASE, BASE.sql, SLIDING.format(5))),
    "rows counted": Case(changed(BASE, BASE.sql, COUNTS.format(3)), changed(BASE, BASE.sql, COUNTS.format(4))),
    "dedupe": Case(BASE, changed(BASE, "", "", dedupe={"key": ["ts", "k"], "within": "10s"})),
}  # fmt: skip


def batches(seed: int = 3) -> list[list[dict[str, Any]]]:
    rng = random.Random(seed)
    rows = [
        {"ts": 600 * at + rng.randrange(2_500), "k": rng.choice(["x", "y", None]), "v": rng.randrange(8)}
        for at in range(96)
    ]
    return [rows[low : low + 12] for low in range(0, 96, 12)]


def in_harness(case: Case, given: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What both plans give, in no order."""
    old, new = case.old.harness(), case.new.harness()
    rows = [row for batch in given[:3] for row in old.push(batch).rows]
    job = HandOver.of(old, new, max(row["ts"] for batch in given[:3] for row in batch) * 1000)
    assert job is not None
    steps = [job.push(batch) for batch in given[3:]]
    assert job.before is None, "the old plan has ended"
    return rows + [row for step in (*steps, job.end()) for row in step.rows]


class HandOverJob(Job):
    """A job whose rows are decoded by workers."""

    def settings(self) -> dict[str, Any]:
        found = super().settings()
        for stream in found["streams"].values():
            stream["scan"] = "auto"
        for route in found["transforms"]["q"]["side_output"].values():
            route["include_original"] = False
        return found


def pipeline(
    folder: Path,
    given: dict[str, MemorySink],
    transforms: Mapping[str, str],
    *,
    start_at: Mapping[str, str] | None = None,
    streams: Sequence[str] = ("s",),
    checkpoint: str = "state",
    shards: int = 2,
) -> Pipeline:
    """A job of these transforms. `start_at`: where some of them begin."""
    begin = {name: {"start_at": instant} for name, instant in (start_at or {}).items()}
    stream = {"schema": SCHEMA, "format": "json", "options": {"maxFilesPerTrigger": 1}}
    stream["eventtime"] = {"column": "ts", "type": "unixtimestamp_ms", "strict": True}
    settings = {
        "streams": {name: stream | {"path": f"data/{name}"} for name in streams},
        "options": {"trigger": "available_now", "checkpoint": checkpoint, "shards": shards, "eventtime.enabled": True,
                    "max_future_skew": "off", **LAG},
        "transforms": {name: {"sql": sql, "sink": name, **begin.get(name, {})} for name, sql in transforms.items()},
        "sinks": {name: {"format": "memory"} for name in given},
    }  # fmt: skip
    made = Pipeline.from_dict(settings, folder)
    made.sinks = given  # those of removed transforms, too
    return made


def shown(sink: MemorySink) -> Counter[str]:
    rows = [row.asDict() for got in sink._batches.values() for row in got]
    return counted(
        {name: value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value for name, value in row.items()}
        for row in rows
    )


def test_transforms_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """Two join a transform that has run alone; it is handed over to another plan, one is drained, one is dropped."""
    given, feeder = batches(), HandOverJob(tmp_path, BASE)
    sinks = {name: MemorySink(name) for name in ("a", "b", "c", "d")}
    tumbling = {size: BASE.sql.replace("4)", f"{size})") for size in (2, 4, 8)}
    start_at = {"d": "1970-01-01T00:00:35Z"}

    def run(
        count: int,
        transforms: Mapping[str, str],
        *,
        drain: bool = False,
        evolve: bool = False,
        drain_removed: bool = False,
    ) -> None:
        feeder.feed_all(given[feeder.fed : feeder.fed + count])
        made = pipeline(
            tmp_path, sinks, transforms, start_at={name: at for name, at in start_at.items() if name in transforms}
        )
        finish(made.start(spark, evolve=evolve, drain_removed=drain_removed), drain=drain)

    run(2, {"a": tumbling[4]})
    run(2, {"a": tumbling[4], "b": tumbling[8], "c": tumbling[2]})
    with pytest.raises(StateError, match="no longer has `b`"):
        run(0, {"a": tumbling[4], "c": tumbling[2]})
    start_at["d"] = "1970-01-01T00:00:20Z"
    with pytest.raises(StateError, match="has read rows up to 1970-01-01T00:00:3"):
        run(0, {"a": tumbling[4], "b": tumbling[8], "c": tumbling[2], "d": tumbling[4]})
    start_at["d"] = "1970-01-01T00:00:35Z"
    run(2, {"a": tumbling[8], "c": tumbling[2], "d": tumbling[4]}, evolve=True, drain_removed=True)
    run(2, {"a": tumbling[8], "d": tumbling[4]}, drain=True, evolve=True)
    whole = [row for batch in given for row in batch]
    alone = replace(BASE, sql=tumbling[4]).harness()
    cut = HandOver.of(alone, replace(BASE, sql=tumbling[8]).harness(), max(row["ts"] for row in whole[:48]) * 1000)
    assert cut is not None
    assert shown(sinks["a"]) == windows(whole, 4, lambda start: start * 1_000_000 < cut.cut_us) + windows(
        whole, 8, lambda start: start * 1_000_000 >= cut.cut_us
    )
    assert shown(sinks["b"]) == windows(whole[24:48], 8), "drained when it was removed"
    assert set(shown(sinks["c"])) <= set(windows(whole[24:72], 2)), "its open windows are dropped"
    assert shown(sinks["d"]) == windows(whole, 4, lambda start: start >= 35), "from its start on"
    assert len(list((tmp_path / "state").glob("**/spark"))) == 1, "one query from the first batch to the last"


SECONDS = "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 2)"
CHAIN = f"SELECT window_start, k, sum(n) AS n, count(*) AS c FROM ({SECONDS}) GROUP BY k, tumblingwindow('ss', 4)"
STATES = "SELECT window_start, k, count(*) AS n FROM s GROUP BY k, statewindow(v > 5, v < {}) OVER (PARTITION BY k)"
UPDATES = f"{BASE.sql.replace('count(*) AS n', 'count(*) AS n, emit_epoch, is_final')} EMIT ON UPDATE"
TOGETHER = {
    "chain": (CHAIN, CHAIN.replace("tumblingwindow('ss', 2)", "hoppingwindow('ss', 4, 2)")),
    "onechain": (BASE.sql, CHAIN),
    "relation": (BASE.sql, BASE.sql.replace("FROM s", "FROM (SELECT ts, k, v FROM s WHERE v > 2) AS few")),
    "states": (STATES.format(2), STATES.format(4)),
    "updates": (UPDATES, UPDATES.replace("tumblingwindow('ss', 4)", "tumblingwindow('ss', 8)")),
}


def test_transforms_of_a_job_that_change_together(spark: SparkSession, tmp_path: Path) -> None:
    """Windows over windows, FROM, windows by state, and updates of windows: each as in the harness.

    While both versions run, the state is divided anew, and a savepoint is where another checkpoint begins.
    """
    given, feeder = batches(), HandOverJob(tmp_path, BASE)
    sinks = {name: MemorySink(name) for name in TOGETHER}
    queries = [{name: both[number] for name, both in TOGETHER.items()} for number in range(2)]
    for low, high, transforms in ((0, 3, queries[0]), (3, 4, queries[1])):
        feeder.feed_all(given[low:high])
        finish(pipeline(tmp_path, sinks, transforms).start(spark, evolve=True), drain=False)
    both = pipeline(tmp_path, sinks, queries[1])
    (rescaled,) = Rescale(both, 3).carry_out(spark)
    assert (rescaled.shards_before, rescaled.shards) == (2, 3)
    origin = Origin(both.store, get_savepoint(both.store, "halfway", 60))
    feeder.feed_all(given[4:])
    made = pipeline(tmp_path, sinks, queries[1], checkpoint="later", shards=3)
    start_from(origin, made.config, made.plans)
    finish(made.start(spark), drain=True)
    for name, (old, new) in TOGETHER.items():
        case = Case(replace(BASE, sql=old), replace(BASE, sql=new))
        assert shown(sinks[name]) == counted(in_harness(case, given)), name


def test_streams_that_are_read_in_another_order(spark: SparkSession, tmp_path: Path) -> None:
    """Spark goes on with the offsets of each, which it knows by the number of the source."""
    both = "SELECT ts, k, v FROM {} UNION ALL SELECT ts, k, v FROM {}"
    sql = "SELECT window_start, k, count(*) AS n FROM ({}) GROUP BY k, tumblingwindow('ss', {})"
    given, sink = batches(), {"a": MemorySink("a")}
    streams = Query(sql, {"s": SCHEMA, "t": SCHEMA}, LAG)
    feeder, made = HandOverJob(tmp_path, streams), None
    for names, size, low, high in ((("s", "t"), 4, 0, 3), (("t", "s"), 8, 3, 8)):
        for batch in given[low:high]:
            feeder.feed(batch[:8], "s")
            feeder.feed(batch[8:], "t")
        made = pipeline(tmp_path, sink, {"a": sql.format(both.format(*names), size)}, streams=("s", "t"))
        finish(made.start(spark, evolve=True), drain=size == 8)
    assert made is not None
    cuts = [each.cut_us for each in made.checkpoint(made.plans[0]).record().plans if each.cut_us is not None]
    rows = [row for batch in given for row in batch]
    assert shown(sink["a"]) == windows(rows, 4, lambda start: start * 1_000_000 < cuts[0]) + windows(
        rows, 8, lambda start: start * 1_000_000 >= cuts[0]
    )


HOPS = "GROUP BY s.k WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 3 SECONDS)"
JOINED = "FROM s {kind} JOIN t ON s.k = t.k"
NEAR = "AND t.ts BETWEEN s.ts - {back} AND s.ts + {ahead}"
PAIRS = f"SELECT s.ts AS a, t.ts AS b, s.v, t.v AS w {JOINED} {NEAR}"
COUNTED = "SELECT window_start, j.k, count(*) AS n FROM ({}) AS j GROUP BY j.k, tumblingwindow('ss', {})"
MAXIMUM = (
    "SELECT window_start, s.k, count(*) AS n, sum(m) AS m FROM s JOIN (SELECT k, max(v) AS m FROM t GROUP BY k, "
    "tumblingwindow('ss', 4)) AS u ON s.k = u.k {} GROUP BY s.k, tumblingwindow('ss', 4)"
)
JOINS = {
    "windows": (
        f"SELECT window_start, s.k, s.v, t.v AS w {JOINED.format(kind='LEFT')} WINDOW TUMBLING (SIZE 4 SECONDS)",
        f"SELECT window_start, s.k, count(*) AS n {JOINED.format(kind='INNER')} AND s.v > t.v {HOPS}",
    ),
    "pairs": (PAIRS.format(kind="LEFT", back=2000, ahead=1000), PAIRS.format(kind="FULL", back=1000, ahead=3000)),
    "over": (
        COUNTED.format(f"SELECT s.k {JOINED.format(kind='LEFT')} {NEAR.format(back=2000, ahead=1000)}", 4),
        COUNTED.format(f"SELECT s.k {JOINED.format(kind='LEFT')} {NEAR.format(back=1000, ahead=1500)}", 2),
    ),
    "maximum": (MAXIMUM.format(""), MAXIMUM.format("AND s.v < m")),
}
STREAMS = {"s": SCHEMA, "t": SCHEMA}


def joined_in_harness(old: str, new: str, given: list[list[dict[str, Any]]], before: int) -> Counter[str]:
    """What both joins give together. The first half of each batch is of one stream, the second of the other."""
    first, second = (Query(sql, STREAMS, LAG).harness() for sql in (old, new))
    parts = [[(batch[:6], "s", 0), (batch[6:], "t", 0)] for batch in given]
    rows = [row for each in parts[:before] for row in first.push_together(each).rows]
    job = HandOver.of(first, second, max(row["ts"] for batch in given[:before] for row in batch) * 1000)
    assert job is not None
    steps = [job.push_together(each) for each in parts[before:]]
    assert job.before is None, "the old plan has ended"
    return counted(rows + [row for step in (*steps, job.end()) for row in step.rows])


def test_joins_of_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Joins within windows and within intervals, a window over pairs, and a join with results, all in one job."""
    given, sinks, made = batches(), {name: MemorySink(name) for name in JOINS}, None
    feeders = {name: HandOverJob(tmp_path, Query("", {name: SCHEMA}, LAG)) for name in STREAMS}
    for number, (low, high) in enumerate(((0, 3), (3, len(given)))):
        feeders["s"].feed_all(batch[:6] for batch in given[low:high])
        feeders["t"].feed_all(batch[6:] for batch in given[low:high])
        made = pipeline(tmp_path, sinks, {name: both[number] for name, both in JOINS.items()}, streams=tuple(STREAMS))
        finish(made.start(spark, evolve=True), drain=high == len(given))
    assert made is not None
    assert len(list((tmp_path / "state").glob("**/spark"))) == 1, "one query"
    for plan in made.plans:
        old, new = JOINS[plan.transform]
        assert shown(sinks[plan.transform]) == joined_in_harness(old, new, given, 3), plan.transform
        last = made.checkpoint(plan).ledger.last()
        assert last is not None
        assert last.totals["in_"] - last.totals["made"] == 96, (plan.transform, last.totals)


def test_windows_of_processing_time(spark: SparkSession, tmp_path: Path) -> None:
    """The time of a row is that of its micro-batch, so each micro-batch is on one side of the cut."""
    sql = "SELECT window_start, window_end, count(*) AS n, sum(v) AS s FROM s GROUP BY {}"
    given = batches()
    job = HandOverJob(tmp_path, Query(sql.format("tumblingwindow('ss', 2)"), {"s": SCHEMA}, timed=False))
    job.feed_all(given[:2]).run(spark)
    job.query = replace(job.query, sql=sql.format("tumblingwindow('ms', 500)"))
    job.feed_all(given[2:5])
    finish(job.pipeline().start(spark, evolve=True), drain=False)
    time.sleep(2)  # so that the cut has passed
    job.feed_all(given[5:])
    finish(job.start(spark), drain=True)
    outcome, made = job.outcome(), job.pipeline()
    (cut_us,) = [each.cut_us for each in made.checkpoint(made.plans[0]).record().plans if each.cut_us is not None]
    wanted: dict[tuple[int, int], list[int]] = {}
    fed = iter([row["v"] for batch in given for row in batch])
    for entry in outcome.entries:
        if entry.accounting["in_"]:
            size_us = 2_000_000 if entry.clock_us < cut_us else 500_000
            start_us = entry.clock_us // size_us * size_us
            wanted.setdefault((start_us, start_us + size_us), []).extend(islice(fed, entry.accounting["in_"]))
    assert not list(fed)
    assert Counter(
        (from_datetime(row["window_start"]), from_datetime(row["window_end"]), row["n"], row["s"])
        for row in outcome.all_rows
    ) == Counter((*bounds, len(values), sum(values)) for bounds, values in wanted.items())
    assert outcome.entries[-1].totals["in_"] == 96


def test_a_query_that_is_changed_again_before_it_has_run(spark: SparkSession, tmp_path: Path) -> None:
    """The first plan goes on until its last window is closed, although the second one never ran beside it."""
    given, feeder, sink = batches(), HandOverJob(tmp_path, BASE), {"a": MemorySink("a")}
    made = None
    for size, count in ((4, 3), (8, 0), (2, 5)):
        feeder.feed_all(given[feeder.fed : feeder.fed + count])
        made = pipeline(tmp_path, sink, {"a": BASE.sql.replace("4)", f"{size})")})
        finish(made.start(spark, evolve=True), drain=size == 2)
    assert made is not None
    cuts = [each.cut_us for each in made.checkpoint(made.plans[0]).record().plans if each.cut_us is not None]
    assert len(cuts) == 2
    rows = [row for batch in given for row in batch]
    assert shown(sink["a"]) == windows(rows, 4, lambda start: start * 1_000_000 < cuts[0]) + windows(
        rows, 8, lambda start: cuts[0] <= start * 1_000_000 < cuts[1]
    ) + windows(rows, 2, lambda start: start * 1_000_000 >= cuts[1])


def windows(rows: list[dict[str, Any]], size: int, own: Callable[[int], bool] = lambda _: True) -> Counter[str]:
    """Counts by window and key, of windows that start where they should."""
    found = Counter((row["ts"] // 1000 // size * size, row["k"]) for row in rows)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return counted(
        {"window_start": epoch + dt.timedelta(seconds=start), "k": key, "n": number}
        for (start, key), number in found.items()
        if own(start)
    )


@pytest.mark.parametrize("names", [list(CASES)[:4], list(CASES)[4:]], ids=["fixed", "others"])
def test_every_class_of_change(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    """No row is missing, and none is counted in two results of one window."""
    given = batches()
    jobs = {}
    for number, name in enumerate(names):
        jobs[name] = HandOverJob(tmp_path / f"{number}", CASES[name].old).feed_all(given[:3])
    for each in [job.start(spark) for job in jobs.values()]:
        finish(each, drain=False)
    for name, job in jobs.items():
        job.feed_all(given[3:])
        job.query = CASES[name].new
    for each in [job.pipeline().start(spark, evolve=True) for job in jobs.values()]:
        finish(each, drain=True)
    for name, job in jobs.items():
        outcome = job.outcome()
        rows = [row for got in outcome.rows.values() for row in got]
        assert counted(rows) == counted(in_harness(CASES[name], given)), name
        last = outcome.entries[-1]
        totals = last.totals
        assert totals["in_"] - totals["made"] == 96, (name, totals)
        assert last.accounting["buffered"] == 0
