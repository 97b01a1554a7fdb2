"""Queries that join streams and hand over to others: no result is missing, and none is there twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.joined import JoinOracle, JoinQuery, Row
from tests.oracle.many_joins import MARKS, QUERIES, Rows, brute
from tests.oracle.test_joins import SETTINGS, THREE, VALUES, interval_queries, queries, shown
from tests.search import search
from windowpane.plan.hand_over import why_not_handed_over
from windowpane.testing import Harness
from windowpane.testing.hand_over import HandOver

LAG = {"eventtime.enabled": True, "max_future_skew": "off", "eventtime.late_tolerance": "20ms"}
"""More than the rows of a test are out of order: none is late."""
Push = tuple[str, list[tuple[int, str | None, int | None]]]


def pushes(rng: random.Random, streams: Sequence[str], count: int, size: int = 3) -> list[Push]:
    """Rows whose times go on by about 4 ms with each push."""
    keys, values = ["x", "x", "y", None], [0, 1, 2, 3, None]
    return [
        (rng.choice(streams), [(at * 4 + rng.randrange(12), rng.choice(keys), rng.choice(values)) for _ in range(size)])
        for at in range(count)
    ]


def given_rows(push: Push) -> list[dict[str, Any]]:
    return [dict(zip(("ts", "k", VALUES[push[0]]), row, strict=True)) for row in push[1]]


def run(old: Harness, new: Harness, given_pushes: Sequence[Push], before: int) -> tuple[list[Any], list[Any], int]:
    """The results of the old query and of the new one, and the cut."""
    found = [row for each in given_pushes[:before] for row in old.push(given_rows(each), each[0]).rows]
    job = HandOver.of(old, new, max(row[0] for _, rows in given_pushes[:before] for row in rows) * 1000)
    assert job is not None
    after = list[Any]()
    for each in given_pushes[before:]:
        step = job.push(given_rows(each), each[0])
        found += [row for part in (step.before, step.ending) if part for row in part.rows]
        after += step.after.rows
    ended = job.before is None
    step = job.end()
    found += step.before.rows if step.before else []
    assert ended, "the old plan has ended"
    return found, after + step.after.rows, job.cut_us


NOT_HANDED = ("united rows",)


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in NOT_HANDED])
def test_each_result_comes_from_one_of_both(name: str) -> None:
    """From a query to the same query: both together give what it gives alone."""
    sql = QUERIES[name].replace("LAG 100 MILLISECONDS", "LAG 20 MILLISECONDS")
    marks = {
        "schema": "id BIGINT, title STRING",
        "rows": [dict(zip(("id", "title"), row, strict=True)) for row in MARKS],
    }
    settings: dict[str, Any] = {**SETTINGS, "streams": THREE, "tables": {"marks": marks} if "marks" in sql else {}}
    old, new = Harness(sql, **settings), Harness(sql, **settings)
    streams = sorted(set(old.plan.stages.input.streams))
    given_pushes = pushes(random.Random(name), streams, 50, 7)
    before, after, _ = run(old, new, given_pushes, 20)
    rows_of: Rows = {"a": [], "b": [], "d": []}
    for stream, rows in given_pushes:
        rows_of[stream] += rows
    assert before
    assert after
    wanted = sorted(map(repr, brute(name, rows_of)))
    assert shown(before + after) == wanted


def test_rows_of_results_that_are_united_are_not_handed_over() -> None:
    plan = Harness(QUERIES["united rows"], **{**SETTINGS, "streams": THREE}).plan  # type: ignore[arg-type]
    assert "not all of its windows" in why_not_handed_over(plan)


class Brute(JoinOracle):
    """All results of a join, each with the start of its window or with its time."""

    def results(self, given_pushes: Sequence[Push]) -> Iterator[tuple[int, tuple[object, ...]]]:
        rows = [Row(side, *row) for side, pushed in given_pushes for row in pushed]
        self.rows = [row for row in rows if not self._filters(row) and not self._is_copy(row)]
        if self.query.interval is None:
            for row in self.rows:
                row.windows = set(self._starts(row.ts))
            for start in self._open():
                joined = self._joined([row for row in self.rows if start in row.windows])
                for result in self._results(joined):
                    yield start, (start, start + self.query.size, *result)
            return
        for pair in self._joined(self.rows):
            time = max(row.ts for row in pair if row is not None)
            yield from ((time, result) for result in self._results([pair]))

    def _holds(self, left: Row, right: Row) -> bool:
        low, high = self.query.interval or (-(10**9), 10**9)
        return low <= right.ts - left.ts <= high and super()._holds(left, right)


@search(8)
@given(
    st.one_of(
        st.tuples(queries(), queries()),
        st.tuples(interval_queries(), interval_queries()),
        st.tuples(queries(), interval_queries()),
        st.tuples(interval_queries(), queries()),
    ),
    st.integers(0, 10**6),
)
def test_joins_of_two_streams(both: tuple[JoinQuery, JoinQuery], seed: int) -> None:
    """Results that begin before the cut are those of the old join, the others those of the new one."""
    chosen = [replace(each, dedupe=()) for each in both]
    if chosen[1].slide is not None and chosen[1].slide > chosen[1].size:
        chosen[1] = replace(chosen[1], slide=None)
    old, new = (Harness(each.sql(), **{**SETTINGS, "options": LAG}) for each in chosen)  # type: ignore[arg-type]
    given_pushes = pushes(random.Random(seed), "ab", 40)
    before, after, cut_us = run(old, new, given_pushes, 8)
    where = f"{chosen!r}, {seed}"
    for query, found, own in zip(chosen, (before, after), (False, True), strict=True):
        results = [each for start, each in Brute(query).results(given_pushes) if (start * 1000 >= cut_us) == own]
        assert shown(found) == sorted(map(repr, results)), where
