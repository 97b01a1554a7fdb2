"""What a sliding window keeps is bounded by time: the rows within lookback, lookahead and lag, however long it runs."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.search import scaled
from tests.spark.staged import Layout, StagedRunner, staged
from windowpane.core.frames import Frame, WindowRows
from windowpane.core.operators import sliding
from windowpane.core.operators.base import Operator
from windowpane.core.operators.row_windows import window_rows
from windowpane.core.state import EntryMap
from windowpane.spark.merge_stage import Shard
from windowpane.testing import Harness

SECOND = 1_000_000
LAG_S, LOOKBACK_S, LOOKAHEAD_S = 2, 5, 3
STREAM = {"schema": "ts BIGINT, k STRING, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}
BY_EVENT = {"eventtime.enabled": True, "eventtime.late_tolerance": f"{LAG_S}s", "max_future_skew": "off"}
QUERIES = {
    "fused": f"SELECT k, sum(v) AS s FROM s GROUP BY slidingwindow('ss', {LOOKBACK_S}) OVER (PARTITION BY k)",
    "fused lookahead": f"SELECT sum(v) AS s FROM s GROUP BY slidingwindow('ss', {LOOKBACK_S}, {LOOKAHEAD_S})",
    "unfused": f"SELECT median(v) AS s FROM s GROUP BY slidingwindow('ss', {LOOKBACK_S}, {LOOKAHEAD_S})",
    "rows": f"SELECT k, v FROM s GROUP BY slidingwindow('ss', {LOOKBACK_S}, {LOOKAHEAD_S}) OVER (WHEN v > 50)",
    "grouped": f"SELECT k, sum(v) AS s FROM s GROUP BY slidingwindow('ss', {LOOKBACK_S}, {LOOKAHEAD_S}), k",
}


def rows_of(step: int, rng: random.Random) -> list[dict[str, Any]]:
    """A second of rows, out of order within the lag."""
    return [
        {"ts": step * SECOND + rng.randrange(2 * SECOND), "k": rng.choice("abc"), "v": rng.randrange(100)}
        for _ in range(20)
    ]


def held(harness: Harness) -> int:
    """Rows in the state of all operators, those broadcast to several shards counted in each."""
    runner: Any = harness._runner
    if isinstance(runner, StagedRunner):
        shards = [
            Shard(runner.job.members[""], EntryMap(entries)) for (shards,) in [runner.entries] for entries in shards
        ]
        return sum(item.count for shard in shards for _, item in shard.holdings())
    return sum(item.count for operator in runner.graph.operators for item in operator.holdings())


@pytest.mark.parametrize("shards", [None, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_event_time(name: str, shards: int | None) -> None:
    arguments: dict[str, Any] = {"streams": {"s": STREAM}, "options": BY_EVENT}
    harness = staged(Layout(shards), QUERIES[name], **arguments) if shards else Harness(QUERIES[name], **arguments)
    rng, seen = random.Random(3), list[int]()
    for step in range(scaled(30)):
        rows = rows_of(step, rng)
        seen += [row["ts"] for row in rows]
        harness.push(rows)
        kept_from = max(seen) - (LAG_S + LOOKBACK_S + LOOKAHEAD_S) * SECOND
        needed = sum(ts >= kept_from for ts in seen)
        copies = 1 + (shards or 0) if shards and name == "grouped" else 1
        assert 0 < held(harness) <= needed * copies, f"step {step}"


@pytest.mark.parametrize("name", QUERIES)
def test_processing_time(name: str) -> None:
    """When rows stop coming, the clock lets go of them."""
    harness = Harness(QUERIES[name], streams={"s": {"schema": STREAM["schema"]}}, now=0)
    rng = random.Random(3)
    for step in range(30):
        harness.push(rows_of(step, rng), at=step * SECOND)
        assert held(harness) <= 20 * (LOOKBACK_S + LOOKAHEAD_S + 1), f"step {step}"
    harness.advance_clock(LOOKBACK_S + LOOKAHEAD_S + 1)
    assert held(harness) == 0


class Probe(Operator):
    """Notes how many frames had been made when it got each."""

    def __init__(self, made: Counter[str]) -> None:
        super().__init__()
        self.made, self.seen = made, list[int]()

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        self.seen.append(self.made["frames"])
        return []


def test_rows_of_windows_are_made_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is in many windows. What comes after has worked on some of them before the next are made."""
    made: Counter[str] = Counter()

    def counting(*given: Any, **named: Any) -> WindowRows:
        made["frames"] += 1
        return window_rows(*given, **named)

    monkeypatch.setattr(sliding, "window_rows", counting)
    monkeypatch.setattr(sliding, "CHUNK", 100)
    harness = Harness(QUERIES["unfused"], streams={"s": STREAM}, options=BY_EVENT)
    probe = Probe(made)
    harness._runner.graph.nodes[-1].operator = probe
    rng = random.Random(3)
    for step in range(8):
        harness.push(rows_of(step, rng))
    assert len(probe.seen) > 10
    assert probe.seen == list(range(1, len(probe.seen) + 1))
