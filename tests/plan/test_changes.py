"""A query that changes over its state: which class a change is of, and that what goes on gives the right results."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from windowpane.errors import StateError
from windowpane.plan.changes import compare
from windowpane.plan.cuts import common_cut_us
from windowpane.plan.shape import shape_of
from windowpane.testing.harness import Harness

SECOND = 1_000_000
NAMED = ("keys", "aggregates", "carried")
"""Parts of a shape that are pairs of a name and its meaning."""
STREAM = {"schema": "ts BIGINT, k STRING, a BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
OTHER = {"schema": "ts BIGINT, k STRING", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
OPTIONS = {"eventtime.enabled": True}
BASE = "SELECT k, count(*) AS n, sum(a) AS s FROM s GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS)"


def harness(sql: str = BASE, **transform: object) -> Harness:
    return Harness(sql, streams={"s": STREAM, "t": OTHER}, options=OPTIONS, transform=transform)


def rows(*given: tuple[float, str | None, int]) -> list[dict[str, object]]:
    return [{"ts": round(ts * 1000), "k": k, "a": a} for ts, k, a in given]


def values(step: Any, *names: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row[name] for name in names) for row in step.rows), key=repr)


@pytest.mark.parametrize(
    ("changed", "kind", "what"),
    [
        (BASE.lower().replace("seconds", "SECONDS"), "unchanged", ()),
        (BASE.replace("sum(a) AS s", "sum(a) + 1 AS total"), "taken_over", ("outputs",)),
        (BASE.replace("SELECT k, count(*) AS n, sum(a) AS s", "SELECT sum(a) AS s, count(*) AS n"), "taken_over",
         ("outputs",)),
        (BASE.replace(" WINDOW", " HAVING count(*) > 1 WINDOW"), "taken_over", ("HAVING, ORDER BY, LIMIT",)),
        (f"{BASE} ORDER BY n LIMIT 2", "taken_over", ("HAVING, ORDER BY, LIMIT",)),
        (f"{BASE} EMIT ON UPDATE", "taken_over", ("EMIT",)),
        (f"{BASE} WATERMARK (LAG 5 SECONDS)", "taken_over", ("lag",)),
        (f"{BASE} WATERMARK (LAG 0 SECONDS, ALLOWED LATENESS 1 MINUTE)", "taken_over", ("allowed lateness",)),
        (BASE.replace(", sum(a) AS s", ""), "state_dropped", ("without sum(a)", "outputs")),
        (BASE.replace("sum(a) AS s", "sum(a) AS s, max(a) AS m"), "hand_over", ("also max(a)", "outputs")),
        (BASE.replace("FROM s", "FROM s WHERE a > 1"), "hand_over", ("WHERE",)),
        (BASE.replace("GROUP BY k", "GROUP BY k, a"), "hand_over", ("keys",)),
        (BASE.replace("10", "20"), "hand_over", ("window",)),
        (BASE.replace("FROM s", "FROM s LATERAL VIEW explode(array(a, 1)) t AS b"), "hand_over", ("FROM",)),
        (BASE.replace("FROM s", "FROM (SELECT k, a FROM s UNION ALL SELECT k, a + 1 FROM s)"), "refused", ("FROM",)),
        ("SELECT k, count(*) AS n FROM t GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS)", "refused", ("streams",)),
    ],
)  # fmt: skip
def test_the_class_of_a_change(changed: str, kind: str, what: tuple[str, ...] | None) -> None:
    found = compare(shape_of(harness().plan), shape_of(harness(changed).plan))
    assert (found.kind, found.what if what is not None else None) == (kind, what)


def another(name: str, value: Any) -> Any:
    """Another value of a part of a shape."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}?"
    return (*value, ("?", "?") if name in NAMED else "?")


def test_every_part_of_a_shape_is_compared() -> None:
    """Otherwise a change of it would be taken for none. Some parts say of the window what others say too."""
    base = replace(shape_of(harness().plan), max_groups=1)
    changed = {field.name: another(field.name, getattr(base, field.name)) for field in fields(base)}
    alike = {
        name for name, value in changed.items() if compare(base, replace(base, **{name: value})).kind == "unchanged"
    }
    assert alike == {"foldable", "spans", "looks_back_us", "stays"}


def test_settings_that_the_state_depends_on() -> None:
    base = shape_of(harness().plan)
    deduped = harness(dedupe={"key": ["k"], "within": "1 minute"})
    assert compare(base, shape_of(deduped.plan)).what == ("dedupe",)
    limited, more = (harness(limits={"max_groups": number}) for number in (2, 3))
    assert compare(base, shape_of(limited.plan)).kind == "hand_over"
    assert compare(shape_of(limited.plan), shape_of(more.plan)).what == ("max_groups",)


def test_the_late_rule_changes_on_spark_alone() -> None:
    job = harness()
    with pytest.raises(StateError, match="late_rule"):
        job.change(BASE, options={**OPTIONS, "late_rule": "row"})


def test_rows_of_a_window_keep_their_columns() -> None:
    query = "SELECT k, a FROM s WINDOW TUMBLING (SIZE 10 SECONDS)"
    base = shape_of(harness(query).plan)
    assert compare(base, shape_of(harness(query.replace("k, a", "a + 1 AS b, k")).plan)).kind == "taken_over"
    assert compare(base, shape_of(harness(query.replace("k, a", "k")).plan)).kind == "hand_over"


@pytest.mark.parametrize(
    ("clauses", "after", "cut"),
    [
        (["TUMBLING (SIZE '10s')"], 31, 40),
        (["TUMBLING (SIZE '10s')"], 40, 50),
        (["TUMBLING (SIZE '10s')", "TUMBLING (SIZE '15s')"], 31, 60),
        (["TUMBLING (SIZE '10s')", "HOPPING (SIZE '1m', SLIDE '4s')"], 1, 20),
        (["TUMBLING (SIZE '10s')"], -31, -30),
        (["TUMBLING (SIZE '10s')", "TUMBLING (SIZE '10s', OFFSET '5s')"], 31, None),
        (["TUMBLING (SIZE '1d')", "TUMBLING (SIZE '1 month', TIME ZONE 'UTC')"], 5, 31 * 86_400),
        (["SESSION (GAP '10s')"], 31, 31.000_001),
        ([], 31, 31.000_001),
    ],
)
def test_the_cut_is_ahead_of_all_rows_at_a_start_in_both_plans(
    clauses: list[str], after: int, cut: float | None
) -> None:
    assert common_cut_us(clauses, after * SECOND) == (None if cut is None else round(cut * SECOND))


def test_outputs_in_another_order_read_the_same_state() -> None:
    job = harness()
    job.push(rows((1, "x", 5), (2, None, 7)))
    before = job.plan.plan_id
    job.change(
        "SELECT sum(a) / count(*) AS mean, k FROM s GROUP BY k HAVING sum(a) > 5 WINDOW TUMBLING (SIZE 10 SECONDS)"
    )
    assert job.plan.plan_id == before  # ids of windows are those they had
    assert values(job.push(rows((3, "x", 7), (12, "x", 1))), "k", "mean") == [("x", 6.0), (None, 7.0)]
    job.change(BASE)
    assert values(job.push(rows((13, "y", 2), (22, "x", 1))), "k", "n", "s") == [("x", 1, 1), ("y", 1, 2)]


@pytest.mark.parametrize("window", ["TUMBLING (SIZE 10 SECONDS)", "SESSION (GAP 5 SECONDS)"])
def test_an_aggregate_less_drops_its_state(window: str) -> None:
    query = f"SELECT k, count(*) AS n, avg(a) AS m, max(a) AS top FROM s GROUP BY k WINDOW {window}"
    job = harness(query)
    job.push(rows((1, "x", 5), (2, "x", 7)))
    job.push(rows((3, "y", 1)))
    assert job.change(query.replace("count(*) AS n, avg(a) AS m, ", "")).kind == "state_dropped"
    job.push(rows((3, "x", 9)))
    with pytest.raises(StateError, match="also count"):
        job.change(query)
    assert values(job.push(rows((30, "x", 1))), "k", "top") == [("x", 9), ("y", 1)]


def test_a_key_that_is_there_twice() -> None:
    query = BASE.replace("GROUP BY k", "GROUP BY k, k")
    job = harness(query)
    job.push(rows((1, "x", 5)))
    assert job.change(query.replace("sum(a) AS s", "sum(a) AS t")).kind == "taken_over"
    assert values(job.push(rows((2, "x", 7), (12, "x", 1))), "k", "n", "t") == [("x", 2, 12)]


def test_state_in_sorted_pieces_is_dropped_too() -> None:
    """A run of that many groups is sorted by the hash of its groups, which is a column of the state."""
    many = [{"ts": 1000, "k": str(number), "a": number} for number in range(20_000)]
    job = harness()
    job.push(many)
    job.push(many)
    assert job.change(BASE.replace("count(*) AS n, ", "")).kind == "state_dropped"
    job.push(many[:10])
    found = values(job.push(rows((12, "x", 1))), "k", "s")
    assert len(found) == 20_000
    assert ("7", 21) in found
    assert ("17000", 34_000) in found


def test_more_lateness_leaves_closed_windows_closed() -> None:
    job = harness()
    assert values(job.push(rows((1, "x", 1), (15, "x", 1))), "k", "n") == [("x", 1)]
    job.change(BASE, transform={"allowed_lateness": "1 minute"})
    step = job.push(rows((2, "x", 1), (16, "x", 1), (11, "x", 1)))
    assert (step.accounting.late, step.rows) == (1, [])
    assert job.push(rows((25, "x", 1), (30, "x", 1))).rows == []
    assert values(job.push(rows((85, "x", 1))), "n") == [(3,)]
    job.change(BASE, transform={"allowed_lateness": "2 minutes"})
    assert job.push(rows((3, "x", 1), (12, "x", 1))).accounting.late == 2


@pytest.mark.parametrize("window", ["TUMBLING (SIZE 10 SECONDS)", "SESSION (GAP 5 SECONDS)"])
@pytest.mark.parametrize("columns", ["k, count(*) AS n", "k, a AS n"])
def test_less_lateness_emits_what_was_kept_open(window: str, columns: str) -> None:
    query = f"SELECT {columns} FROM s {'GROUP BY k' if 'count' in columns else ''} WINDOW {window}"
    job = harness(query, allowed_lateness="1 minute")
    job.push(rows((1, "x", 1), (30, "y", 1)))
    job.change(query, transform={})
    step = job.push(rows((31, "y", 1)))
    assert values(step, "k", "n") == [("x", 1)]
    whole = job.end()
    assert {row["k"] for row in whole.rows} == {"y"}
    assert step.accounting.late == 0


def test_updates_that_end_are_continued_by_the_final_row() -> None:
    update = f"{BASE.replace('count(*) AS n', 'count(*) AS n, emit_epoch, is_final')} EMIT ON UPDATE"
    job = harness(update)
    assert values(job.push(rows((1, "x", 1))), "n", "emit_epoch", "is_final") == [(1, 1, False)]
    job.change(update.replace(" EMIT ON UPDATE", ""))
    assert job.push(rows((2, "x", 1))).rows == []
    assert values(job.push(rows((12, "x", 1))), "n", "emit_epoch", "is_final") == [(2, 2, True)]
    job.change(update)
    assert values(job.push(rows((13, "x", 1))), "n", "emit_epoch", "is_final") == [(2, 1, False)]


def test_a_longer_lag_does_not_move_the_watermark_back() -> None:
    job = harness()
    job.push(rows((1, "x", 1), (15, "x", 1)))
    job.change(f"{BASE} WATERMARK (LAG 1 MINUTE)")
    step = job.push(rows((2, "x", 1), (20, "x", 1)))
    assert (step.accounting.late, step.rows) == (1, [])
    assert step.watermark is not None
    assert step.watermark.timestamp() == 15
    assert values(job.push(rows((80, "x", 1))), "n") == [(1,)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("window", ["TUMBLING (SIZE 10 SECONDS)", "HOPPING (SIZE 9 SECONDS, SLIDE 3 SECONDS)"])
def test_a_query_that_changes_five_times_loses_and_repeats_no_window(seed: int, window: str) -> None:
    """Outputs, HAVING, EMIT, lag and lateness change in turn; each window's final row is what an oracle counts."""
    rng = random.Random(seed)
    head, tail = "k, count(*) AS n, sum(a) AS s", f"FROM s GROUP BY k WINDOW {window}"
    variants = [
        (f"SELECT window_start, {head}, is_final {tail}", {}),
        (f"SELECT is_final, sum(a) AS s, count(*) AS n, k, window_start {tail} EMIT ON UPDATE", {}),
        (f"SELECT window_start, {head}, is_final {tail.replace(' WINDOW', ' HAVING count(*) > 0 WINDOW')}", {}),
        (f"SELECT window_start, {head}, is_final {tail}", {"allowed_lateness": "4s", "watermark_lag": "6s"}),
        (f"SELECT window_start, {head}, is_final {tail} EMIT EVERY 1 SECOND", {"watermark_lag": "5s"}),
    ]
    lag = {"watermark_lag": "3s"}
    job = harness(variants[0][0], **lag)
    times = [at * 0.8 + rng.random() * 2.5 for at in range(90)]
    given = [(ts, rng.choice(["x", "y", None]), rng.randrange(9)) for ts in times]
    steps = []
    for number, low in enumerate(range(0, 90, 15)):
        steps.append(job.push(rows(*given[low : low + 15])))
        sql, transform = variants[(number + 1) % 5]
        job.change(sql, transform={**lag, **transform})
        job = job.again(job.snapshot())
    steps.append(job.end())
    size, slide = (10, 10) if "TUMBLING" in window else (9, 3)
    wanted: Counter[tuple[object, ...]] = Counter()
    sums: Counter[tuple[object, ...]] = Counter()
    for ts, k, a in given:
        for start in range(int(ts // slide) * slide, int(ts) - size, -slide):
            if start <= ts < start + size:
                wanted[start, k] += 1
                sums[start, k] += a
    found = Counter(
        (row["window_start"].timestamp(), row["k"], row["n"], row["s"])  # type: ignore[attr-defined]
        for step in steps for row in step.rows if row["is_final"]
    )  # fmt: skip
    assert found == Counter((*key, count, sums[key]) for key, count in wanted.items())
    assert not any(step.side for step in steps)
