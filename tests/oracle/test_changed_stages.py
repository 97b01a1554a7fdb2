"""A query that changes while it runs in stages, over several shards: as in one process."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.spark.staged import Layout, StagedRunner, staged
from windowpane.spark.splitting import split_stages
from windowpane.testing.harness import Harness, Step

pytestmark = pytest.mark.slow

STREAM = {"schema": "ts BIGINT, k STRING, a BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
SURROUNDINGS: dict[str, Any] = {
    "streams": {"s": STREAM},
    "options": {"eventtime.enabled": True, "max_future_skew": "off"},
    "now": 0,
}
COUNTS = (
    "SELECT window_start, k, count(*) AS n, max(a) AS top, avg(a) AS mean, emit_epoch, window_id "
    "FROM s GROUP BY k WINDOW"
)
FEWER = COUNTS.replace("count(*) AS n, max(a) AS top, ", "")
OTHERS = COUNTS.replace("SELECT window_start, k, count(*) AS n", "SELECT count(*) + 1 AS more, k, window_start")
TUMBLING, SESSION = "TUMBLING (SIZE 5 SECONDS)", "SESSION (GAP 2 SECONDS)"
CHANGES = {
    "outputs": (f"{COUNTS} {TUMBLING}", f"{OTHERS} {TUMBLING}", {}),
    "an aggregate less": (f"{COUNTS} {TUMBLING}", f"{FEWER} {TUMBLING}", {}),
    "an aggregate less of sessions": (f"{COUNTS} {SESSION}", f"{FEWER} {SESSION}", {}),
    "no more updates": (f"{COUNTS} {TUMBLING} EMIT ON UPDATE", f"{COUNTS} {TUMBLING}", {}),
    "updates": (f"{COUNTS} {TUMBLING}", f"{COUNTS} {TUMBLING} EMIT ON UPDATE", {}),
    "more lateness": (f"{COUNTS} {TUMBLING}", f"{COUNTS} {TUMBLING}", {"allowed_lateness": "4s"}),
    "more lateness of sessions": (f"{COUNTS} {SESSION}", f"{COUNTS} {SESSION}", {"allowed_lateness": "4s"}),
    "lag": (f"{COUNTS} {TUMBLING}", f"{COUNTS} {TUMBLING} WATERMARK (LAG 3 SECONDS)", {}),
}


def changed(old: Harness, first: str, sql: str, layout: Layout, transform: dict[str, Any]) -> Harness:
    """A staged harness of the changed query that has the state of the one before."""
    harness = Harness(first, **SURROUNDINGS)
    harness.watermark_us = old.watermark_us
    harness.change(sql, transform=transform)
    empty = harness._inputs.schema(harness._pushed([], "s", "0"))
    stages, _ = split_stages(harness.plan, empty, shards=layout.shards, feedback=True, spread=True)
    runner, state = StagedRunner(stages, layout), vars(old._runner)
    vars(runner).update({name: value for name, value in state.items() if name not in ("_stages", "job")})
    harness._runner = runner  # type: ignore[assignment]  # has what the harness calls
    harness._clock_us, harness._arrivals = old._clock_us, old._arrivals
    return harness


def shown(step: Step) -> tuple[list[str], list[str], object]:
    side = [{name: each[name] for name in ("kind", "reason", "event_time")} for each in step.side]
    return sorted(map(repr, step.rows)), sorted(map(repr, side)), step.watermark


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("shards", [1, 3])
def test_stages_go_on_with_a_changed_query(name: str, shards: int) -> None:
    first, second, transform = CHANGES[name]
    rng = random.Random(name)
    times = [at * 400 + rng.randrange(4_000) for at in range(48)]
    rows = [{"ts": ts, "k": rng.choice(["x", "y", "z", None]), "a": rng.randrange(9)} for ts in times]
    batches = [rows[low : low + 8] for low in range(0, 48, 8)]
    layout = Layout(shards)
    one, many = Harness(first, **SURROUNDINGS), staged(layout, first, **SURROUNDINGS)
    for batch in batches[:3]:
        assert shown(one.push(batch)) == shown(many.push(batch))
    one.change(second, transform=transform)
    many = changed(many, first, second, layout, transform)
    for batch in batches[3:]:
        assert shown(one.push(batch)) == shown(many.push(batch))
    assert shown(one.end()) == shown(many.end())
