"""The sketch of lateness predicts what a run with another lag gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.lateness import BOUNDS_US, MOST_PARTITIONS, OTHERS, LatenessJudge, LatenessSketch, WindowChance
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.windows.fixed import Tumbling
from windowpane.plan.lateness import lateness_judge
from windowpane.testing import Harness

SECOND = 1_000_000
STREAMS = {"bids": {"schema": "k BIGINT, ts BIGINT", "eventtime.column": "ts", "eventtime.type": "unixtimestamp_ms"}}
QUERIES = {
    "tumbling": "SELECT k, count(*) AS n FROM bids GROUP BY tumblingwindow('ss', 5), k",
    "hopping": "SELECT k, count(*) AS n FROM bids GROUP BY hoppingwindow('ss', 10, 4), k",
    "sliding": "SELECT k, count(*) AS n FROM bids GROUP BY slidingwindow('ss', 10), k",
    "gaps": "SELECT k, count(*) AS n FROM bids GROUP BY hoppingwindow('ss', 2, 3), k",
    "filtered": "SELECT k, count(*) AS n FROM bids WHERE k <> 3 GROUP BY tumblingwindow('ss', 5), k",
}


def _batches(seed: int) -> list[list[dict[str, int]]]:
    """Rows of 60 s, in micro-batches of four seconds; the delay of most rows is short, of few it is long."""
    random = np.random.default_rng(seed)
    arrival = np.sort(random.uniform(0, 60, 4000))
    delay = random.exponential(2.0, 4000) + np.where(random.random(4000) < 0.05, random.uniform(0, 30, 4000), 0)
    ts = ((1000 + arrival - delay) * 1000).astype(np.int64)
    rows = [{"k": int(k), "ts": int(each)} for k, each in zip(random.integers(0, 10, 4000), ts, strict=True)]
    bounds = np.searchsorted(arrival, np.arange(0, 61, 4))
    return [rows[first:last] for first, last in pairwise(bounds) if last > first]


def _harness(sql: str, transform: dict[str, str]) -> Harness:
    options = {"eventtime.enabled": True}
    return Harness(sql, streams=STREAMS, options=options, transform=transform, now=2_000_000 * SECOND)


def _late(sql: str, lag: str, lateness: str, batches: list[list[dict[str, int]]]) -> int:
    transform = {"watermark_lag": lag, "allowed_lateness": lateness} if lateness else {"watermark_lag": lag}
    harness = _harness(sql, transform)
    return sum(harness.push(rows).accounting.late for rows in batches)


def _sketch(sql: str, lag_us: int, batches: list[list[dict[str, int]]]) -> LatenessSketch:
    """What the fold stage keeps of a run under the lag `lag_us`."""
    harness = _harness(sql, {"watermark_lag": f"{lag_us // 1000}ms"})
    judge = lateness_judge(harness.plan.stages)
    assert judge is not None
    sketch = LatenessSketch()
    for batch in batches:
        sketch.observe(harness._inputs.rows(harness._pushed(batch, "bids", "0")), judge, harness.watermark_us)
        harness.push(batch)
    return sketch


@pytest.mark.parametrize(("name", "ran_with"), [("tumbling", 0), *((name, 7 * SECOND) for name in QUERIES)])
def test_predicted_rows_are_those_of_a_run(name: str, ran_with: int) -> None:
    """Whatever lag the sketch was taken under."""
    batches = _batches(1)
    sketch = _sketch(QUERIES[name], ran_with, batches)
    for lag_s in (0, 3, 10):
        assert sketch.late(lag_s * SECOND) == _late(QUERIES[name], f"{lag_s}s", "", batches), lag_s


def test_between_bounds_the_prediction_is_close() -> None:
    batches = _batches(2)
    sketch = _sketch(QUERIES["tumbling"], 0, batches)
    for lag_ms in (1234, 2345, 5678):
        assert sketch.late(lag_ms * 1000) == pytest.approx(_late(QUERIES["tumbling"], f"{lag_ms}ms", "", batches), 0.1)


def test_lag_and_lateness_add_up() -> None:
    batches = _batches(3)
    sketch = _sketch(QUERIES["tumbling"], 0, batches)
    assert sketch.late(7 * SECOND) == _late(QUERIES["tumbling"], "3s", "4s", batches)


def test_a_lag_loses_nothing() -> None:
    batches = _batches(4)
    sketch = _sketch(QUERIES["tumbling"], 0, batches)
    enough = sketch.loses_nothing_us()
    assert sketch.late(enough) == 0 == _late(QUERIES["tumbling"], f"{enough // 1000}ms", "", batches)


def test_sketches_travel_and_add_up() -> None:
    sketch = _sketch(QUERIES["tumbling"], 0, _batches(5))
    assert LatenessSketch.of_tallies(sketch.tallies()) == sketch
    assert LatenessSketch.decoded(sketch.encoded()) == sketch
    twice = LatenessSketch.decoded(sketch.encoded())
    twice.merge(sketch)
    assert twice.late(SECOND) == 2 * sketch.late(SECOND)
    assert twice.rows() == 8000


def test_partitions_are_bounded() -> None:
    sketch = LatenessSketch()
    for number in range(200):
        sketch.merge(LatenessSketch.decoded({f"bids/{number:03}": f"{number + 1} 0:1"}))
    bounded = sketch.bounded()
    assert len(bounded.partitions()) == MOST_PARTITIONS
    assert bounded.rows() == sketch.rows()
    assert bounded.late(0) == sketch.late(0) == 200
    assert OTHERS in bounded.partitions()


def test_partitions_are_told_apart() -> None:
    judge = LatenessJudge(WindowChance(AlignedPlan(Tumbling(5 * SECOND), ())), 0)
    times = pa.array(np.array([0, 50, 100, 99]) * SECOND)
    partitions = pa.array(["a", "b", "b", "a"]).dictionary_encode()
    sketch = LatenessSketch()
    rows = pa.RecordBatch.from_arrays([times, partitions], [c.EVENT_TIME, c.SOURCE_PARTITION])
    sketch.observe(rows, judge, 80 * SECOND)
    assert (sketch.rows("a"), sketch.rows("b")) == (2, 2)
    assert (sketch.late(0, "a"), sketch.late(0, "b")) == (1, 1)
    assert (sketch.late(60 * SECOND, "a"), sketch.late(60 * SECOND, "b")) == (1, 0)


def test_bounds_are_sorted() -> None:
    assert (np.diff(BOUNDS_US) > 0).all()
    assert len(BOUNDS_US) < 400
