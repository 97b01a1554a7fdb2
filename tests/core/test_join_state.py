"""The state of joins of streams: bounded by window or interval, written by what comes, shown by inspect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, Clock, Rows, Watermark
from windowpane.core.joining import JoinPlan
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.interval_join import IntervalJoin
from windowpane.core.operators.window_join import WindowJoin
from windowpane.core.side import Key
from windowpane.core.state import EntryMap
from windowpane.core.windows import Hopping, Tumbling

KEYS = (Key("_j0", "k"),)
SECOND = 1_000_000


def window(spec: Tumbling | Hopping) -> WindowJoin:
    return WindowJoin(AlignedPlan(spec, KEYS), JoinPlan("inner", KEYS, left=("_c0",), right=("_c1",)))


JOINS: dict[str, Callable[[], Operator]] = {
    "tumbling": lambda: window(Tumbling(10 * SECOND)),
    "hopping": lambda: window(Hopping(10 * SECOND, 5 * SECOND)),
    "interval": lambda: IntervalJoin(JoinPlan("left", KEYS, left=("_c0",), right=("_c1",)), (-5 * SECOND, 5 * SECOND)),
}


def rows(second: int) -> pa.RecordBatch:
    """A hundred rows of one second, of both sides, of fifty keys."""
    number = np.arange(100) + 100 * second
    return pa.RecordBatch.from_pydict(
        {
            c.EVENT_TIME: number * SECOND // 100,
            c.ARRIVAL: number,
            c.RIGHT: number % 2 == 1,
            "_j0": number // 2 % 50,
            "_c0": number,
            "_c1": number,
        }
    )


@pytest.mark.parametrize("name", list(JOINS))
def test_the_state_is_bounded(name: str) -> None:
    entries, sizes, held = EntryMap({}), list[int](), list[int]()
    operator = JOINS[name]()
    for second in range(120):
        operator = JOINS[name]()
        stored = EntryMap(entries.merged())
        if second:
            operator.load(stored.of_operator("0"))
        for frame in (Clock(second), Rows(rows(second)), Watermark(second * SECOND), BatchEnd()):
            list(operator.on_frame(frame))
        operator.save(stored.of_operator("0"))
        written = sum(len(content) for content in stored.changes.values() if content is not None)
        assert written < 60_000, "only what the micro-batch adds, and merges of small runs, are written"
        entries = stored
        sizes.append(stored.size())
        held.append(operator.buffered())
    assert max(held[60:]) == max(held[20:60]) <= 2_200
    assert max(sizes[60:]) <= 1.1 * max(sizes[20:60])
    shown = operator.holdings()
    assert sum(each.count for each in shown) >= held[-1] > 0
    assert all(each.start_us is not None and each.end_us is not None and each.size > 0 for each in shown)
