"""Operators that keep rows: a micro-batch reads and writes the entries it must, with the results of any other cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.core.test_state import Counting
from tests.spark import staged as staging
from tests.spark.staged import Layout, staged
from windowpane.core import segmented_rows, summaries
from windowpane.core.frames import Frame, Rows, WindowRows
from windowpane.core.operators import row_windows
from windowpane.core.operators.base import Operator
from windowpane.testing import Harness

pytestmark = pytest.mark.slow

SECOND = 1_000_000
STREAM = {"schema": "ts BIGINT, k STRING, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}
OPTIONS = {"eventtime.enabled": True, "eventtime.late_tolerance": "3s", "max_future_skew": "off"}
AGGREGATES = "count(*) AS n, sum(v) AS s, max(v) AS m, first(v) AS f, last(v) AS l, avg(v) AS a"
QUERIES = {
    "per key": f"SELECT k, {AGGREGATES} FROM s GROUP BY slidingwindow('ss', 20) OVER (PARTITION BY k)",
    "grouped": f"SELECT k, {AGGREGATES} FROM s GROUP BY slidingwindow('ss', 20), k",
    "whole": f"SELECT {AGGREGATES} FROM s GROUP BY slidingwindow('ss', 20, 5)",
    "looking ahead": (
        f"SELECT k, {AGGREGATES} FROM s GROUP BY slidingwindow('ss', 15, 15) OVER (PARTITION BY k WHEN v > 50)"
    ),
    "unfused": "SELECT k, median(v) AS s FROM s GROUP BY slidingwindow('ss', 20, 2) OVER (PARTITION BY k)",
    "plain": "SELECT k, v FROM s",
    "tumbling": "SELECT k, median(v) AS m, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k",
    "tumbling rows": "SELECT k, v FROM s GROUP BY tumblingwindow('ss', 10)",
    "hopping": "SELECT k, median(v) AS m FROM s GROUP BY hoppingwindow('ss', 4, 2), k",
    "session": "SELECT k, median(v) AS m, count(*) AS n FROM s GROUP BY sessionwindow('ms', 900), k",
    "session of all": "SELECT median(v) AS m, count(*) AS n FROM s GROUP BY sessionwindow('ms', 200)",
    "count": "SELECT k, sum(v) AS s FROM s GROUP BY countwindow(7, 3) OVER (PARTITION BY k)",
    "count of all": "SELECT sum(v) AS s, count(*) AS n FROM s GROUP BY countwindow(11)",
    "state": "SELECT k, sum(v) AS s FROM s GROUP BY statewindow(v > 60, v < 20) OVER (PARTITION BY k)",
    "state of all": "SELECT sum(v) AS s, count(*) AS n FROM s GROUP BY statewindow(v > 95)",
    "hopping rows": "SELECT k, v, window_id FROM s GROUP BY hoppingwindow('ss', 10, 1)",
}


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmented_rows, "SEGMENT_ROWS", 15)
    monkeypatch.setattr(segmented_rows, "CHUNK_ROWS", 25)
    monkeypatch.setattr(summaries, "SUMMARY_ROWS", 5)


class Entries(Counting):
    """The entries of a shard; the last ones are kept, to be asked what was read."""

    last: Entries

    def __init__(self, stored: Any) -> None:
        super().__init__(stored)
        Entries.last = self

    def merged(self) -> dict[str, bytes]:
        """Without counting."""
        return {name: super(Counting, self).read(name) for name in self.names()}

    def pieces(self) -> list[str]:
        return [name for name in self.reads if not name.endswith("/")]

    def written(self) -> list[str]:
        return [name for name, data in self.changes.items() if data is not None and not name.endswith("/")]


def rows_of(step: int, rng: random.Random) -> list[dict[str, Any]]:
    """A second of rows, out of order within the lag."""
    return [
        {"ts": step * SECOND + rng.randrange(3 * SECOND), "k": rng.choice("abcdefg"), "v": rng.randrange(100)}
        for _ in range(10)
    ]


def found(harness: Harness, steps: int) -> list[Any]:
    rng = random.Random(3)
    given = [harness.push(rows_of(step, rng), at=step * SECOND) for step in range(steps)] + [harness.end()]
    return [(sorted(map(repr, step.rows)), step.accounting.as_dict()) for step in given]


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("name", QUERIES)
def test_results_do_not_depend_on_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"streams": {"s": STREAM}, "options": OPTIONS, "now": 0}
    made = list[int]()
    monkeypatch.setattr(summaries.Summaries, "_made", _noting(summaries.Summaries._made, made))
    cut = found(staged(Layout(1), QUERIES[name], **arguments), 15)
    assert bool(made) == (name in ("per key", "whole", "looking ahead"))
    monkeypatch.setattr(segmented_rows, "SEGMENT_ROWS", 10_000)
    assert cut == found(Harness(QUERIES[name], **arguments), 15)


def _noting(method: Any, made: list[int]) -> Any:
    def noting(self: Any, rows: Any) -> Any:
        made.append(rows.num_rows)
        return method(self, rows)

    return noting


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize(("name", "most_rows"), [("per key", 10), ("looking ahead", 14), ("plain", 4)])
def test_a_batch_reads_the_rows_at_the_edges_of_its_windows(
    name: str, most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than twenty segments are kept. Most are not read, or only their summaries."""
    monkeypatch.setattr(staging, "EntryMap", Entries)
    harness = staged(Layout(1), QUERIES[name], streams={"s": STREAM}, options=OPTIONS, now=0)
    rng, read, written = random.Random(3), list[int](), list[int]()
    for step in range(36):
        harness.push(rows_of(step, rng), at=step * SECOND)
        read.append(sum("s#" not in piece for piece in Entries.last.pieces()))
        written.append(len(Entries.last.written()))
    assert name == "plain" or sum("s#" not in piece for piece in Entries.last.names()) > 20
    assert max(read[30:]) <= most_rows
    assert max(written[30:]) <= 4


class Probe(Operator):
    """Notes how many rows each frame has."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_rows(self, frame: Rows) -> list[Frame]:
        self.seen.append(frame.batch.num_rows)
        return []

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        self.seen.append(frame.batch.num_rows)
        return []


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT k, v FROM s", 60),
        ("SELECT k, v FROM s GROUP BY tumblingwindow('hh', 1)", 60),
        ("SELECT k, median(v) AS m FROM s GROUP BY tumblingwindow('hh', 1), k", 60),
        ("SELECT k, v FROM s GROUP BY hoppingwindow('ss', 6, 3)", 200),
        ("SELECT sum(v) AS s FROM s GROUP BY countwindow(10, 2) OVER (PARTITION BY k)", 60),
    ],
)
def test_what_comes_out_at_once_is_bounded(sql: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 400 rows are released, or their windows close, in one micro-batch: they come in many frames."""
    monkeypatch.setattr(row_windows, "CHUNK_ROWS", 50)
    harness = Harness(sql, streams={"s": STREAM}, options=OPTIONS | {"eventtime.late_tolerance": "2h"}, now=0)
    rng, probe, entries = random.Random(3), Probe(), Entries({})
    harness._runner.graph.nodes[-1].operator = probe
    for step in range(40):
        harness.push(rows_of(step, rng), at=step * SECOND)
        harness._runner.graph.save(entries)
    assert not probe.seen
    # The account does not add up without the operator that the probe replaces.
    monkeypatch.setattr("windowpane.core.accounting.Accounting.check", lambda *_: None)
    harness.push([{"ts": 4 * 3600 * SECOND, "k": "a", "v": 1}], at=40 * SECOND)
    assert sum(probe.seen) >= 400
    assert max(probe.seen) <= most


def test_a_complete_count_window_does_not_come_again_at_the_end() -> None:
    """One of its rows may still be stored: nothing has merged it with the row that completed the window."""
    sql = "SELECT id FROM s GROUP BY countwindow(2, 3) OVER (PARTITION BY k)"
    stream = STREAM | {"schema": "ts BIGINT, id BIGINT, k STRING"}
    harness = Harness(sql, streams={"s": stream}, options=OPTIONS | {"eventtime.late_tolerance": "0s"}, now=0)
    pushes = [[(0, 0, "u"), (0, 1, "w"), (0, 2, "u"), (0, 3, "u")], [(3, 4, "w"), (3, 5, "w")], [(9, 6, "v")]]
    given = [harness.push([{"ts": ts, "id": number, "k": k} for ts, number, k in rows], at=0) for rows in pushes]
    found = [row["id"] for step in [*given, harness.end()] for row in step.rows]
    assert found == [0, 2, 1, 4, 6]
