"""A window kind that follows from time alone is one module: its spec. This one grows step by step, as CUMULATE does."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.spark.staged import Layout, staged
from windowpane.core.windows import KINDS, AlignedSpec, Part, register
from windowpane.core.windows.aligned import Bools, Int64s
from windowpane.testing import Harness
from windowpane.time import format_duration

SECOND = 1_000_000


@dataclass(frozen=True)
class Growing(AlignedSpec):
    """[start, start + n * step) for n = 1 … size / step, start a multiple of size."""

    step_us: int
    size_us: int

    kind = "growing"
    parts = (Part("STEP", "step_us", "1 SECOND"), Part("SIZE", "size_us", "4 SECONDS", label="size"))

    def windows(self) -> GrowingWindows:
        return GrowingWindows(self.step_us, self.size_us)

    def longest_us(self) -> int:
        return self.size_us

    def overlapping(self) -> bool:
        return True

    def pane_us(self) -> int:
        return self.step_us

    def words(self) -> str:
        return f"growing by {format_duration(self.step_us)} up to {format_duration(self.size_us)}"


@dataclass(frozen=True)
class GrowingWindows:
    """The key of a window is its end."""

    step_us: int
    size_us: int
    has_gaps = False
    whole_panes = False

    @property
    def key_step(self) -> int:
        return self.step_us

    def pane_number(self, ts: Int64s) -> Int64s:
        return ts // self.step_us

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers * self.step_us

    def pane_end(self, start_us: int) -> int:
        return start_us + self.step_us

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        start = ts // self.size_us * self.size_us
        ends = [start + n * self.step_us for n in range(1, self.size_us // self.step_us + 1)]
        inside = [np.flatnonzero(end > ts) for end in ends]
        return np.concatenate(inside), np.concatenate([end[at] for end, at in zip(ends, inside, strict=True)])

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return (keys - 1) // self.size_us * self.size_us, keys

    def last_key(self, ts: Int64s) -> Int64s:
        return ts // self.size_us * self.size_us + self.size_us

    def in_gap(self, ts: Int64s) -> Bools:
        return np.zeros(len(ts), bool)

    def open_from(self, closed_us: int) -> int:
        return closed_us // self.size_us * self.size_us


@pytest.fixture(autouse=True)
def growing() -> Iterator[None]:
    register(Growing)
    yield
    del KINDS["growing"]


STREAM = {"schema": "ts BIGINT, k STRING", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}


@pytest.mark.parametrize("calls", ["count(*) AS n", "count(*) AS n, collect_list(k) AS ks"])
@pytest.mark.parametrize("shards", [None, 2])
def test_it_needs_only_its_spec(shards: int | None, calls: str) -> None:
    sql = f"SELECT k, {calls}, window_start, window_end FROM s GROUP BY k WINDOW GROWING (STEP 1 s, SIZE 4 s)"
    arguments: dict[str, Any] = {"streams": {"s": STREAM}, "options": {"eventtime.enabled": True}}
    harness = staged(Layout(shards), sql, **arguments) if shards else Harness(sql, **arguments)
    chosen = random.Random(5)
    events = [{"ts": at * SECOND // 10, "k": chosen.choice("ab")} for at in range(120)]
    steps = [harness.push(events[at : at + 7]) for at in range(0, 120, 7)]
    results: list[dict[str, Any]] = [row for step in [*steps, harness.end()] for row in step.rows]
    found = {(_us(row["window_start"]), _us(row["window_end"]), row["k"]): row["n"] for row in results}
    assert len(found) == len(results), "a window came out twice"
    assert found == Counter((*bounds, row["k"]) for row in events for bounds in _windows(int(str(row["ts"]))))


def _us(when: dt.datetime) -> int:
    return round(when.timestamp() * SECOND)


def _windows(us: int) -> list[tuple[int, int]]:
    start = us // (4 * SECOND) * 4 * SECOND
    return [(start, start + n * SECOND) for n in range(1, 5) if start + n * SECOND > us]
