"""A window over the results of another gives in each step what two oracles give: cut, restored, spread over shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import strategies as draw
from tests.oracle.chains import Chain, ChainOracle, chains
from tests.oracle.running import Move, Run, Scenario, assert_same_results, push, results_of
from tests.oracle.spec import Aggregate, Aligned, Query, Session, Sliding, settings_of
from tests.search import search
from tests.spark.staged import Layout, rescale, staged
from windowpane.core.accounting import Accounting
from windowpane.testing import Harness


@dataclass
class ChainRun(Run):
    """A harness with both queries in it."""

    chain: Chain | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        assert self.chain is not None
        self.arguments: dict[str, Any] = settings_of(self.chain.inner)
        if self.layout is None:
            self.harness = Harness(self.chain.sql, **self.arguments)
        else:
            self.harness = staged(self.layout, self.chain.sql, **self.arguments)

    def restore(self) -> None:
        assert self.chain is not None
        self.harness = self.harness.again(self.harness.snapshot())


def check_chain(
    chain: Chain, moves: tuple[Move, ...], layout: Layout | None = None,
    rescales: Mapping[int, int] = MappingProxyType({}),
) -> None:  # fmt: skip
    run, oracle = ChainRun(chain.outer, chain=chain, layout=layout), ChainOracle(chain)
    for number, move in enumerate(moves):
        if number in rescales:
            rescale(run.harness, rescales[number])
        below, above = oracle.expect(move)
        step = run.move(replace(move, restore=False))
        where = f"step {number} ({move.kind}) with {layout}, {rescales} of {chain.sql}\n{chain!r}\n{moves!r}"
        assert step.accounting == Accounting(**below.accounting), where
        assert step.stages["window_2"] == Accounting(**above.accounting), where
        assert len(step.side) == len(below.side) + len(above.side), where
        assert_same_results(results_of(step, chain.outer), above.results, where)
        if move.restore and layout is None and move.kind != "end":
            run.restore()


@st.composite
def chained_scenarios(draw_one: st.DrawFn) -> tuple[Chain, tuple[Move, ...]]:
    chain = draw_one(chains())
    scenario: Scenario = draw_one(draw.scenarios(st.just(chain.inner)))
    return chain, scenario.moves


@search(10)
@given(chained_scenarios())
def test_a_window_over_the_results_of_another(drawn: tuple[Chain, tuple[Move, ...]]) -> None:
    check_chain(*drawn)


layouts = st.builds(Layout, st.integers(2, 4), st.integers(1, 3), st.booleans(), st.booleans())
counts = st.dictionaries(st.integers(1, 7), st.integers(1, 4), max_size=2)


@search(8)
@given(chained_scenarios(), layouts, counts)
def test_spread_over_shards(drawn: tuple[Chain, tuple[Move, ...]], layout: Layout, rescales: dict[int, int]) -> None:
    check_chain(*drawn, layout, rescales)


SECOND = 1_000_000
ROWS = [{"ts": ts * 400_000, "k": "uv"[ts % 2], "n": ts % 3, "a": ts % 4} for ts in range(-5, 43)]
MOVES = (*draw.numbered([push(ROWS[low : low + 16]) for low in range(0, 48, 16)]), Move("end"))
LAYOUTS = (Layout(3), Layout(3, spread=False), Layout(2, 1, feedback=False))


@pytest.mark.parametrize(
    ("keys", "layout"),
    [(("n",), LAYOUTS[0]), (("k", "n"), LAYOUTS[2]), (("a", "k"), LAYOUTS[0]), (("a",), LAYOUTS[2]),
     ((), LAYOUTS[0]), (("a",), LAYOUTS[1]), ((), LAYOUTS[1])],
)  # fmt: skip
def test_where_the_outer_window_runs(keys: tuple[str, ...], layout: Layout) -> None:
    """By the same keys, fewer, computed ones, or none; with another number of shards halfway."""
    inner = Query(Aligned(SECOND), ("k", "n"), (Aggregate("sum", "a"),), lateness_us=700_000)
    calls = Aggregate("count"), Aggregate("sum", "a")
    outer = Query(Aligned(5 * SECOND, 2 * SECOND), keys, calls, data_driven=False)
    check_chain(Chain(inner, outer), MOVES, layout, {2: 2})


def test_sessions_over_sliding_windows() -> None:
    sessions = Query(Session(2 * SECOND), ("k",), (Aggregate("count"),), data_driven=False)
    sliding = Query(Sliding(3 * SECOND, SECOND, ("k",)), ("k",), (Aggregate("count"),))
    check_chain(Chain(sliding, sessions), MOVES, Layout(3))
