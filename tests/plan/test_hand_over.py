"""A hand-over against an oracle: no row is missing, and none is counted in two results of one window."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from windowpane.errors import PlanError
from windowpane.testing.hand_over import HandOver
from windowpane.testing.harness import Harness, Step

SECOND = 1_000_000
STREAM = {"schema": "ts BIGINT, k STRING, a BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
Row = tuple[int, str | None, int]
"""Milliseconds, key, number."""
Spans = Callable[[int], list[tuple[int, int]]]


def harness(window: str, where: str = "", lag: str = "0s", columns: str = "k, count(*) AS n, sum(a) AS s") -> Harness:
    group = "GROUP BY k" if "count" in columns else ""
    sql = f"SELECT window_start, {columns} FROM s {where} {group} {window}"
    sql = sql if window else f"SELECT {columns} FROM s {where}"
    options = {"eventtime.enabled": True, "eventtime.late_tolerance": lag, "max_future_skew": "off"}
    return Harness(sql, streams={"s": STREAM}, options=options)


def given(rows: list[Row]) -> list[dict[str, object]]:
    return [{"ts": ts, "k": k, "a": a} for ts, k, a in rows]


def hopping(size: int, slide: int) -> Spans:
    return lambda ts: [(start, start + size) for start in range(ts // slide * slide, ts - size, -slide)]


def windows(rows: list[Row], spans: Spans, own: Callable[[int], bool]) -> Counter[tuple[object, ...]]:
    """Of each window and key that starts on one side: how many rows it has, and their sum."""
    found: dict[tuple[object, ...], list[int]] = {}
    for ts, k, a in rows:
        for start, _ in spans(ts):
            if own(start):
                found.setdefault((start, k), []).append(a)
    return Counter((*key, len(numbers), sum(numbers)) for key, numbers in found.items())


def sessions(rows: list[Row], gap: int, own: Callable[[int], bool]) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for key in {k for _, k, _ in rows}:
        last, current = None, list[Row]()
        for row in sorted((row for row in rows if row[1] == key and own(row[0])), key=lambda row: row[0]):
            if last is not None and row[0] - last >= gap:
                found[current[0][0], key, len(current), sum(each[2] for each in current)] += 1
                current = []
            current.append(row)
            last = row[0]
        if current:
            found[current[0][0], key, len(current), sum(each[2] for each in current)] += 1
    return found


def emitted(steps: list[Step]) -> Counter[tuple[object, ...]]:
    rows = [row for step in steps for row in step.rows]
    return Counter((round(row["window_start"].timestamp() * 1000), row["k"], row["n"], row["s"]) for row in rows)  # type: ignore[attr-defined]


CASES = {
    "tumbling to hopping": ("WINDOW TUMBLING (SIZE 10 SECONDS)", hopping(10_000, 10_000),
                            "WINDOW HOPPING (SIZE 12 SECONDS, SLIDE 4 SECONDS)", hopping(12_000, 4_000)),
    "hopping to tumbling": ("WINDOW HOPPING (SIZE 9 SECONDS, SLIDE 2 SECONDS)", hopping(9_000, 2_000),
                            "WINDOW TUMBLING (SIZE 5 SECONDS)", hopping(5_000, 5_000)),
    "another WHERE": ("WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 3 SECONDS)", hopping(6_000, 3_000),
                      "WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 3 SECONDS)", hopping(6_000, 3_000)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_windows_of_both_plans_are_whole(name: str, seed: int) -> None:
    old_window, old_spans, new_window, new_spans = CASES[name]
    rng = random.Random(seed)
    base = rng.choice([0, -100_000])
    times = [base + at * 700 + rng.randrange(3_000) for at in range(80)]
    rows = [(ts, rng.choice(["x", "y", None]), rng.randrange(10)) for ts in times]
    old, new = harness(old_window, lag="4s"), harness(new_window, "WHERE a > 3", lag="4s")
    read = rows[:30]
    steps: list[tuple[Step, Step | None]] = []
    before = [old.push(given(read[:15])), old.push(given(read[15:]))]
    job = HandOver.of(old, new, max(ts for ts, _, _ in read) * 1000)
    assert job is not None
    for low in range(30, 80, 10):
        found = job.push(given(rows[low : low + 10]))
        steps.append((found.after, found.before))
    assert job.before is None, "the old plan has closed its last window"
    found = job.end()
    steps.append((found.after, None))
    cut = job.cut_us // 1000
    assert cut > max(ts for ts, _, _ in read)
    wanted = windows(rows, old_spans, lambda start: start < cut)
    assert emitted([*before, *(each for _, each in steps if each)]) == wanted
    kept = [row for row in rows if row[2] > 3]
    assert emitted([each for each, _ in steps]) == windows(kept, new_spans, lambda start: start >= cut)
    assert not any(each.side for pair in steps for each in pair if each)
    counted = sum(step.accounting.in_ for pair in steps for step in pair if step)
    both = [ts for ts, _, _ in rows[30:] if ts >= cut and any(start < cut for start, _ in old_spans(ts))]
    assert counted == 50 + len(both), "a row counts in one plan, or in both if its windows are"
    assert not sum(step.accounting.no_window for pair in steps for step in pair if step)


@pytest.mark.parametrize("seed", range(3))
def test_sessions_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(at * 900 + rng.randrange(2_000), rng.choice(["x", None]), at) for at in range(60)]
    old, new = (harness(f"WINDOW SESSION (GAP {gap} SECONDS)", lag="3s") for gap in (2, 3))
    first = old.push(given(rows[:20]))
    job = HandOver.of(old, new, max(ts for ts, _, _ in rows[:20]) * 1000)
    assert job is not None
    steps = [job.push(given(rows[low : low + 10])) for low in range(20, 60, 10)]
    steps.append(job.end())
    cut = job.cut_us / 1000
    after = [each.after for each in steps]
    assert emitted([first, *(each.before for each in steps if each.before)]) == sessions(
        rows, 2_000, lambda ts: ts < cut
    )
    assert emitted(after) == sessions(rows, 3_000, lambda ts: ts >= cut)


def test_plain_rows_come_out_once() -> None:
    rows: list[Row] = [(at * 1000, "x", at) for at in range(12)]
    old, new = harness("", columns="a"), harness("", columns="a, k")
    first = old.push(given(rows[:5]))
    job = HandOver.of(old, new, 4_000_000)
    assert job is not None
    steps = [job.push(given(rows[5:8])), job.push(given(rows[8:])), job.end()]
    found = [row["a"] for row in [*first.rows, *(row for step in steps for row in step.rows)]]
    assert Counter(found) == Counter(range(12))


def test_rows_of_a_plan_that_has_ended_are_late() -> None:
    old, new = harness("WINDOW TUMBLING (SIZE 10 SECONDS)"), harness("WINDOW TUMBLING (SIZE 5 SECONDS)")
    old.push(given([(1_000, "x", 1)]))
    job = HandOver.of(old, new, 1_000_000)
    assert job is not None
    assert job.cut_us == 10 * SECOND
    step = job.push(given([(12_000, "x", 1), (2_000, "x", 1)]))
    assert step.before is not None
    assert (step.before.accounting.aggregated, step.before.accounting.in_) == (1, 1)
    assert (step.after.accounting.aggregated, step.after.accounting.in_) == (1, 1)
    step = job.push(given([(25_000, "x", 1), (3_000, "x", 1)]))
    assert step.before is not None
    assert (step.before.accounting.late, step.after.accounting.in_) == (1, 1)
    step = job.push(given([(4_000, "x", 1)]))
    assert (step.before, step.after.accounting.late) == (None, 1)


def test_a_slow_partition_holds_back_the_new_plan_too() -> None:
    old, new = (harness(f"WINDOW TUMBLING (SIZE {size} SECONDS)") for size in (10, 5))
    old.push(given([(1_000, "x", 1)]), shard=1)
    old.push(given([(8_000, "x", 1)]), shard=2)
    job = HandOver.of(old, new, 8_000_000)
    assert job is not None
    assert job.push(given([(30_000, "x", 1)]), shard=2).rows == []
    assert emitted([each for each in (job.push(given([(11_000, "x", 1)]), shard=1).before,) if each]) == {
        (0, "x", 2, 2): 1
    }


@pytest.mark.parametrize("lookahead", [0, 2])
@pytest.mark.parametrize("columns", ["count(*) AS n, sum(a) AS s", "count(*) AS n, sum(a) AS s, array_agg(a) AS all"])
def test_sliding_windows_look_back_across_the_cut(lookahead: int, columns: str) -> None:
    """Each row triggers once, in one of both plans, and its window has all rows that it should."""
    rows: list[Row] = [(at * 1_000 + at % 3, "x", at) for at in range(40)]
    ahead = f", LOOKAHEAD {lookahead} SECONDS" if lookahead else ""
    old, new = (
        harness(f"WINDOW SLIDING (LOOKBACK {back} SECONDS{ahead})", lag="1s", columns=f"trigger_time, {columns}")
        for back in (3, 5)
    )
    steps = [old.push(given(rows[:10]))]
    job = HandOver.of(old, new, rows[9][0] * 1000)
    assert job is not None
    cut = job.cut_us / 1000
    assert cut > rows[9][0] + 5_000
    versions = [job.push(given(rows[low : low + 6])) for low in range(10, 40, 6)] + [job.end()]
    assert job.before is None
    found = [*(row for step in steps for row in step.rows), *(row for each in versions for row in each.rows)]

    def wanted(ts: int) -> tuple[object, ...]:
        back = 3_000 if ts < cut else 5_000
        own = [a for at, _, a in rows if ts - back <= at <= ts + lookahead * 1_000]
        return ts, len(own), sum(own)

    assert Counter((round(row["trigger_time"].timestamp() * 1000), row["n"], row["s"]) for row in found) == Counter(  # type: ignore[attr-defined]
        wanted(ts) for ts, _, _ in rows
    )


def test_count_windows_are_cut() -> None:
    """Rows before the cut are counted by the old plan, later ones by the new one."""
    rows: list[Row] = [(at * 1_000, "x", at) for at in range(20)]
    options = {"eventtime.enabled": True, "max_future_skew": "off"}
    query = "SELECT sum(a) AS s, count(*) AS n FROM s GROUP BY countwindow(3)"
    queries = (query, query.replace("(3)", "(4)"))
    old, new = (Harness(each, streams={"s": STREAM}, options=options) for each in queries)
    first = old.push(given(rows[:8]))
    job = HandOver.of(old, new, 7_000_000)
    assert job is not None
    steps = [job.push(given(rows[8:12])), job.push(given(rows[12:])), job.end()]
    found = [*first.rows, *(row for step in steps for row in step.rows)]
    assert Counter((row["s"], row["n"]) for row in found) == Counter(
        [(3, 3), (12, 3), (13, 2), (38, 4), (54, 4), (70, 4)]
    )


@pytest.mark.parametrize(
    ("old_window", "new_window", "sizes", "over"),
    [
        ("tumblingwindow('ss', 4)", "tumblingwindow('ss', 6)", (4, 6), "s"),
        ("tumblingwindow('ss', 4)", "tumblingwindow('ss', 6)", (4, 6), "results"),
        ("countwindow(3)", "countwindow(4)", None, "s"),
    ],
)
def test_windows_of_processing_time(old_window: str, new_window: str, sizes: tuple[int, int] | None, over: str) -> None:
    """The time of a row is that of its micro-batch, so each micro-batch is on one side of the cut."""
    sql = "SELECT window_start, sum(a) AS s, count(*) AS n FROM s GROUP BY {}"
    if over == "results":
        inner = "SELECT sum(a) AS a FROM s GROUP BY tumblingwindow('ss', 1)"
        sql = f"SELECT window_start, sum(a) AS s, count(*) AS n FROM ({inner}) GROUP BY {{}}"
    streams = {"s": {"schema": "ts BIGINT, k STRING, a BIGINT"}}
    old, new = (Harness(sql.format(each), streams=streams, now=0) for each in (old_window, new_window))
    first = [old.push(given([(0, "x", at)]), at=at * SECOND) for at in range(5)]
    job = HandOver.of(old, new, 4 * SECOND)
    assert job is not None
    steps = [job.push(given([(0, "x", at)]), at=at * SECOND) for at in range(5, 30)]
    steps.append(job.end())
    found: list[Any] = [row for step in first for row in step.rows] + [row for step in steps for row in step.rows]
    assert job.before is None
    cut = job.cut_us // SECOND
    if sizes is None:
        assert Counter(row["n"] for row in found) == Counter({3: 1, 2: 1, 4: 6, 1: 1})
    else:
        starts = [at // sizes[at >= cut] * sizes[at >= cut] for at in range(30)]
        seen = Counter({(start, starts.count(start)): 1 for start in starts})
        assert Counter((round(row["window_start"].timestamp()), row["n"]) for row in found) == seen
    assert sum(row["s"] for row in found) == sum(range(30))


def test_what_cannot_be_handed_over() -> None:
    base = harness("WINDOW TUMBLING (SIZE 10 SECONDS)")
    inner = "SELECT window_start AS w, count(*) AS n FROM s WINDOW"
    over = "WINDOW TUMBLING (SIZE 5 SECONDS)"
    refused = {
        f"SELECT sum(n) AS n FROM ({inner} SESSION (GAP 1 SECOND)) {over}": "not all of its windows",
        f"SELECT sum(n) AS n FROM ({inner} TUMBLING (SIZE 1 SECOND)) {over} ON w": "event times from an expression",
    }
    for sql, reason in refused.items():
        with pytest.raises(PlanError, match=reason):
            HandOver.of(base, Harness(sql, streams={"s": STREAM}, options={"eventtime.enabled": True}), 0)
    shifted = harness("WINDOW TUMBLING (SIZE 10 SECONDS, OFFSET 3 SECONDS)")
    assert HandOver.of(base, shifted, 0) is None


def chain(inner: str, outer: str, where: str = "", lateness: str = "0s") -> Harness:
    """Counts and sums by key, and windows over them."""
    below = f"SELECT k, count(*) AS n, sum(a) AS s FROM s {where} GROUP BY k {inner}"
    sql = f"SELECT window_start, k, count(*) AS c, sum(n) AS n, sum(s) AS s FROM ({below}) GROUP BY k {outer}"
    options = {"eventtime.enabled": True, "eventtime.late_tolerance": "4s", "max_future_skew": "off"}
    return Harness(sql, streams={"s": STREAM}, options=options, transform={"allowed_lateness": lateness})


def chained(rows: list[Row], inner: Spans, outer: Spans, own: Callable[[int], bool]) -> Counter[tuple[object, ...]]:
    """Of each outer window and key that starts on one side: how many inner results it has, their rows and their sum."""
    below: dict[tuple[int, str | None], list[int]] = {}
    for ts, k, a in rows:
        for _, end in inner(ts):
            below.setdefault((end, k), []).append(a)
    found: dict[tuple[int, str | None], list[list[int]]] = {}
    for (end, k), numbers in below.items():
        for start, _ in outer(end - 1):
            if own(start):
                found.setdefault((start, k), []).append(numbers)
    return Counter((*key, len(own), sum(map(len, own)), sum(map(sum, own))) for key, own in found.items())


TUMBLING_5 = ("WINDOW TUMBLING (SIZE 5 SECONDS)", hopping(5_000, 5_000))
TUMBLING_1 = ("WINDOW TUMBLING (SIZE 1 SECOND)", hopping(1_000, 1_000))
TUMBLING_10 = ("WINDOW TUMBLING (SIZE 10 SECONDS)", hopping(10_000, 10_000))
HOPPING_6 = ("WINDOW HOPPING (SIZE 6 SECONDS, SLIDE 2 SECONDS)", hopping(6_000, 2_000))
HOPPING_15 = ("WINDOW HOPPING (SIZE 15 SECONDS, SLIDE 5 SECONDS)", hopping(15_000, 5_000))
CHAINS = {
    "another outer window": ((TUMBLING_1, TUMBLING_5), (TUMBLING_1, TUMBLING_10)),
    "another inner window": ((TUMBLING_5, TUMBLING_10), (HOPPING_6, TUMBLING_10)),
    "windows that overlap": ((HOPPING_6, HOPPING_15), (TUMBLING_5, HOPPING_15)),
    "inner windows that are not over at the cut": ((HOPPING_15, HOPPING_6), (HOPPING_15, TUMBLING_10)),
    "to one window": ((HOPPING_6, TUMBLING_10), (None, TUMBLING_5)),
    "from one window": ((None, HOPPING_6), (HOPPING_6, HOPPING_15)),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("lateness", ["0s", "3s"])
def test_windows_over_results_are_whole(name: str, lateness: str) -> None:
    rng = random.Random(lateness)
    rows = [(at * 700 + rng.randrange(3_000), rng.choice(["x", "y", None]), rng.randrange(10)) for at in range(150)]
    plans: list[Harness] = []
    wanted: list[Callable[[list[Row], Callable[[int], bool]], Counter[tuple[object, ...]]]] = []
    for (inner, outer), where in zip(CHAINS[name], ("", "WHERE a > 3"), strict=True):
        if inner is None:
            plans.append(harness(outer[0], where, lag="4s"))
            wanted.append(lambda given, own, outer=outer: windows(given, outer[1], own))  # type: ignore[misc]
        else:
            plans.append(chain(inner[0], outer[0], where, lateness))
            wanted.append(lambda given, own, inner=inner, outer=outer: chained(given, inner[1], outer[1], own))  # type: ignore[misc]
    old, new = plans
    before = [old.push(given(rows[:15])), old.push(given(rows[15:30]))]
    job = HandOver.of(old, new, max(ts for ts, _, _ in rows[:30]) * 1000)
    assert job is not None
    steps = [job.push(given(rows[low : low + 10])) for low in range(30, 150, 10)]
    assert job.before is None, "the old plan has closed its last window"
    steps.append(job.end())
    cut = job.cut_us // 1000
    ended = [each for step in steps for each in (step.before, step.ending) if each]
    assert shown([*before, *ended]) == wanted[0](rows, lambda start: start < cut)
    kept = [row for row in rows if row[2] > 3]
    assert shown([each.after for each in steps]) == wanted[1](kept, lambda start: start >= cut)
    assert not any(each.side for each in [*ended, *(step.after for step in steps)])


def shown(steps: list[Step]) -> Counter[tuple[object, ...]]:
    rows = [row for step in steps for row in step.rows]
    names = ("c", "n", "s") if rows and "c" in rows[0] else ("n", "s")
    return Counter(
        (round(row["window_start"].timestamp() * 1000), row["k"], *(row[name] for name in names))  # type: ignore[attr-defined]
        for row in rows
    )
