"""How large batches may be: near the target after a few changes, whatever rows cost, and after that has changed too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from tests.search import search
from windowpane.runtime.sizing import CEILING, FLOOR, MOST, STEP, WARM_UP_SECONDS, WORTHWHILE, BatchSizing

Cost = Callable[[float], float]
AS_SHORT = 0.3
"""Of the target: what a batch on a backlog takes at least, once the size has settled."""


@dataclass
class Stream:
    """A backlog without end on a simulated machine. When a batch is done, the next one is planned already."""

    sizing: BatchSizing
    cost: Cost
    changes: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.planned = self.sizing.scale

    def batches(self, count: int, *, waiting: bool = True) -> Iterator[float]:
        """Seconds of each batch."""
        for _ in range(count):
            size, self.planned = self.planned, self.sizing.scale
            seconds = self.cost(size)
            self.sizes.append(size)
            if self.sizing.judge(size if waiting else None, seconds):
                self.changes.append(self.sizing.scale)
                self.sizing.begun()
            yield seconds

    def run(self, count: int, *, waiting: bool = True) -> list[float]:
        return list(self.batches(count, waiting=waiting))


def linear(fixed: float, per_size: float, noise: float = 1.0, seed: int = 0) -> Cost:
    chance = random.Random(seed)
    return lambda size: (fixed + per_size * size) * chance.uniform(1.0, noise)


targets = st.floats(1, 60)
fixed_costs = st.floats(0.05, 0.8)
costs = st.floats(-5, 6).map(lambda power: 4.0**power)
scales = st.floats(FLOOR, CEILING)


@dataclass(frozen=True)
class Machine:
    fixed: float
    per_size: float
    restart: float
    noise: float
    seed: int


machines = st.builds(Machine, fixed_costs, costs, st.floats(0.1, 5), st.floats(1.0, 1.3), st.integers(0, 99))


def turns(sizes: list[float]) -> int:
    """How often growing is followed by shrinking, or the other way round."""
    grows = [after > before for before, after in pairwise(sizes)]
    return sum(before != after for before, after in pairwise(grows))


@given(targets, scales, machines)
@example(1.0, 1.0, Machine(0.8, 1.0, 1.0, 1.0, 0))
@example(1.1875, 0.03125, Machine(0.40234375, 0.0625, 2.0, 1.1875, 0))  # hardly worth a change: the first comes late
@search(60)
def test_it_settles_near_the_target_in_a_few_changes(target: float, scale: float, machine: Machine) -> None:
    fixed, noise = machine.fixed, machine.noise
    cost = linear(fixed, machine.per_size, noise, machine.seed)
    stream = Stream(BatchSizing(target, scale, machine.restart), cost)
    stream.run(150)
    settled = len(stream.changes)
    late = stream.run(300)

    assert len(stream.changes) <= 9 + 1
    assert len(stream.changes) - settled <= 1 or turns([scale, *stream.changes]) == 0, "it goes on changing"
    assert all(FLOOR <= size <= CEILING for size in stream.changes)
    longest = max(MOST * target, 3 * noise * fixed) * noise
    assert max(late[-200:]) <= longest or stream.sizing.scale < WORTHWHILE * FLOOR
    assert min(late[-200:]) >= AS_SHORT * target or stream.sizing.scale > CEILING / WORTHWHILE


@given(st.lists(st.tuples(st.none() | st.floats(0, 20), st.floats(0, 1e4)), max_size=60), targets, scales)
def test_whatever_batches_take_a_change_is_by_a_worthwhile_step_within_the_bounds(
    batches: list[tuple[float | None, float]], target: float, scale: float
) -> None:
    sizing = BatchSizing(target, scale)
    for size, seconds in batches:
        before = sizing.scale
        changed = sizing.judge(size, seconds)
        assert changed == (sizing.scale != before)
        assert FLOOR <= sizing.scale <= CEILING
        if changed:
            step = max(sizing.scale / before, before / sizing.scale)
            assert WORTHWHILE * 0.999 <= step <= STEP * 1.001
            sizing.begun()


@given(targets, costs, scales, st.integers(0, 99))
@search(60)
def test_when_rows_become_dearer_or_cheaper_it_follows(target: float, per_size: float, scale: float, seed: int) -> None:
    stream = Stream(BatchSizing(target, scale), linear(0.3, per_size, 1.1, seed))
    stream.run(100)
    for times in (20.0, 0.05):
        stream.cost = linear(0.3, per_size * times, 1.1, seed)
        seconds = stream.run(200)[-50:]
        assert max(seconds) <= 1.1 * max(MOST * target, 3.3) or stream.sizing.scale < WORTHWHILE * FLOOR
        assert min(seconds) >= AS_SHORT * target or stream.sizing.scale > CEILING / WORTHWHILE


def test_a_machine_that_is_slow_now_and_then_changes_nothing() -> None:
    times = {10: 12.0, 40: 18.0, 77: 9.0}
    sizing = BatchSizing(5.0)
    assert not [number for number in range(100) if sizing.judge(1.0, times.get(number, 3.0))]


def test_one_batch_that_is_far_too_long_is_enough() -> None:
    stream = Stream(BatchSizing(5.0), linear(0.5, 400.0))
    stream.run(4)
    assert stream.changes[0] == 1 / STEP
    assert stream.sizes[:3] == [1.0, 1.0, 0.25]


def test_growing_waits_until_it_would_have_paid_for_the_restart() -> None:
    changes = {}
    for restart in (0.3, 1.0, 10.0):
        stream = Stream(BatchSizing(5.0, 1 / 16, restart), linear(0.5, 0.1))
        changes[restart] = next(number for number, _ in enumerate(stream.batches(200)) if stream.changes)
    assert changes == {0.3: 1, 1.0: 3, 10.0: 27}


def test_without_a_backlog_nothing_changes_however_short_or_long_batches_are() -> None:
    for cost in (0.01, 1000.0):
        stream = Stream(BatchSizing(5.0), linear(cost, 0.0))
        stream.run(100, waiting=False)
        assert stream.changes == []


def test_the_first_batch_of_a_query_is_allowed_its_warm_up() -> None:
    sizing = BatchSizing(2.0)
    assert not sizing.judge(1.0, 2.0 + WARM_UP_SECONDS)
    assert not sizing.judge(1.0, 2.0)
    sizing.begun()
    assert sizing.judge(1.0, 60.0), "an hour would not be the warm-up's"


def test_a_size_that_was_remembered_is_kept_within_the_bounds() -> None:
    assert BatchSizing(5.0, 1e9).scale == CEILING
    assert BatchSizing(5.0, 0.0).scale == FLOOR


def test_a_file_that_is_larger_than_the_limit_does_not_shrink_it_again_and_again() -> None:
    """It is read whole, however low the limit."""
    sizing = BatchSizing(5.0)
    changes = [sizing.scale for _ in range(50) if sizing.judge(1.0, 30.0)]
    assert len(changes) <= 2
