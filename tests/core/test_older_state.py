"""State of older formats is taken up, and the query goes on.

The oldest has scalars beside the times, and `_close` for `_emit`. A later one has kept rows in headers, and lists no
segments.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.staged import Layout, rescale, staged
from windowpane.testing import Harness

pytestmark = pytest.mark.slow

SECOND = 1_000_000
STREAM = {"schema": "ts BIGINT, k STRING, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}
OPTIONS = {"eventtime.enabled": True, "eventtime.late_tolerance": "3s", "max_future_skew": "off"}
DEDUPE = {"dedupe": {"key": ["v"], "within": "20s"}}
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "tumbling": ("SELECT k, window_start, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 10), k EMIT ON UPDATE", {}),
    "hopping": ("SELECT k, window_start, count(*) AS n FROM s GROUP BY hoppingwindow('ss', 10, 5), k", {}),
    "quota": ("SELECT k, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 10), k", {"limits.max_groups": 2}),
    "session": (
        "SELECT k, max(v) AS m FROM s GROUP BY sessionwindow('ss', 4), k EMIT ON UPDATE",
        {"allowed_lateness": "1s"},
    ),
    "session rows": ("SELECT k, median(v) AS m FROM s GROUP BY sessionwindow('ss', 4), k", {}),
    "rows": ("SELECT k, v FROM s GROUP BY tumblingwindow('ss', 10)", {"allowed_lateness": "5s"}),
    "sliding": ("SELECT k, sum(v) AS s FROM s GROUP BY slidingwindow('ss', 5, 3), k", {}),
    "count": ("SELECT sum(v) AS s FROM s GROUP BY countwindow(4, 3) OVER (PARTITION BY k)", {}),
    "state": ("SELECT sum(v) AS s FROM s GROUP BY statewindow(v > 60, v < 20) OVER (PARTITION BY k)", {}),
    "dedupe": ("SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k", DEDUPE),
}
OF_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "sliding": QUERIES["sliding"],
    "sliding partition": ("SELECT k, sum(v) AS s FROM s GROUP BY slidingwindow('ss', 5) OVER (PARTITION BY k)", {}),
    "sliding rows": ("SELECT k, v FROM s GROUP BY slidingwindow('ss', 5, 3) OVER (WHEN v > 50)", {}),
    "plain": ("SELECT k, v FROM s", {}),
    "rows": QUERIES["rows"],
    "hopping rows": ("SELECT k, median(v) AS m FROM s GROUP BY hoppingwindow('ss', 10, 5), k", {}),
    "session rows": QUERIES["session rows"],
    "count": QUERIES["count"],
    "state": QUERIES["state"],
}
"""Those whose operators keep rows."""


def _stored(name: str) -> dict[str, Any]:
    """By query: the state entries of two shards after four steps of `rows_of`, in base64."""
    found: dict[str, Any] = json.loads(gzip.decompress((Path(__file__).parent / name).read_bytes()))
    return found


OLDEST, ROWS_IN_HEADERS = _stored("older_state.json.gz"), _stored("older_rows.json.gz")
STEPS_BEFORE, STEPS = 4, 8


def rows_of(step: int) -> list[dict[str, Any]]:
    times = [step * 2 * SECOND + number * 37 % 7 * SECOND for number in range(12)]
    return [{"ts": ts, "k": "abc"[number % 3], "v": (step * 31 + number * 17) % 97} for number, ts in enumerate(times)]


def pushed(harness: Harness, steps: range) -> list[Any]:
    found = [harness.push(rows_of(step), at=step * SECOND) for step in steps] + [harness.end()]
    # The order of groups within a window is not promised, nor that of side rows of several shards.
    return [
        (sorted(step.rows, key=repr), sorted(step.side, key=repr), step.watermark, step.accounting.as_dict())
        for step in found
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_goes_on_with_older_state(name: str) -> None:
    check_goes_on(*QUERIES[name], OLDEST[name])


@pytest.mark.parametrize("name", OF_ROWS)
def test_rows_in_headers_are_taken_up(name: str) -> None:
    check_goes_on(*OF_ROWS[name], ROWS_IN_HEADERS[name])


def check_goes_on(sql: str, transform: dict[str, Any], older: dict[str, Any]) -> None:
    """The state is of two shards. For three, it is divided anew first."""
    arguments: dict[str, Any] = {"streams": {"s": STREAM}, "options": OPTIONS, "transform": transform, "now": 0}
    layout = Layout(2, spread=False)
    wanted = pushed(staged(layout, sql, **arguments), range(STEPS))[STEPS_BEFORE:]
    for shards in (2, 3):
        harness = with_state(staged(layout, sql, **arguments), older)
        if shards != layout.shards:
            rescale(harness, shards)
        assert pushed(harness, range(STEPS_BEFORE, STEPS)) == wanted, f"{shards} shards"


def with_state(harness: Harness, older: dict[str, Any]) -> Harness:
    runner: Any = harness._runner
    runner.entries = [[{key: base64.b64decode(data) for key, data in shard.items()} for shard in older["shards"]]]
    runner.watermarks[""], runner._buffered[""] = older["watermark_us"], {"": older["buffered"]}
    harness._arrivals = runner._arrivals[""] = older["arrivals"]
    return harness
