"""A window over the results of another: its SQL, and its meaning as two oracles, one above the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.oracle import strategies as draw
from tests.oracle.oracle import Expected, Oracle
from tests.oracle.running import Move, expect
from tests.oracle.spec import Aggregate, Condition, Query, Sliding, Values, sql_of


@dataclass(frozen=True)
class Chain:
    """`outer` reads the results of `inner`: its keys, and its first aggregate as column `a`."""

    inner: Query
    outer: Query

    @property
    def sql(self) -> str:
        columns = ", ".join([*self.inner.keys, f"{self.inner.names[0]} AS a"])
        results = f"(SELECT {columns} FROM ({sql_of(self.inner)}) AS i) AS q"
        return sql_of(self.outer).replace("FROM s", f"FROM {results}", 1)

    @property
    def behind_us(self) -> int:
        """How far the outer watermark is behind the inner one."""
        if isinstance(self.inner.window, Sliding):
            return (self.inner.window.lookahead_us or 0) + int(self.inner.by_clock)
        return self.inner.lateness_us + 1


class ChainOracle:
    """Each step of the inner oracle gives a step of the outer one: its results, and its watermark less the delay."""

    def __init__(self, chain: Chain) -> None:
        self.chain, self.inner, self.outer = chain, Oracle(chain.inner), Oracle(chain.outer)

    def expect(self, move: Move) -> tuple[Expected, Expected]:
        below = expect(self.inner, move)
        self.outer.clock = self.inner.clock
        fresh = [self.outer.receive(self.row(*result)) for result in below.results]
        asked = None if below.watermark is None else below.watermark - self.chain.behind_us
        return below, self.outer.finish(fresh, asked=asked, end=move.kind == "end")

    def row(self, identity: Any, values: list[Any]) -> Values:
        """A result as a row: the last microsecond of its window, or its trigger's time."""
        _, end, trigger, _, _, keys = identity
        own = dict(zip(self.chain.inner.keys, keys, strict=True))
        return own | {"ts": end - 1 if trigger is None else trigger, "a": values[0]}


VALUES = st.sampled_from([Aggregate("count"), Aggregate("sum", "a"), Aggregate("min", "a"), Aggregate("max", "a")])
"""Aggregates whose result is a BIGINT."""
CALLS = st.sampled_from(
    [Aggregate("count"), Aggregate("sum", "a"), Aggregate("max", "a"), Aggregate("count", "a", distinct=True)]
)
"""Aggregates that do not depend on the order of results with the same time."""


@st.composite
def inner_queries(draw_one: st.DrawFn) -> Query:
    query = draw_one(draw.queries(draw.windows_with_bounds))
    calls = (draw_one(VALUES), *query.aggregates[:1])
    return replace(query, aggregates=calls, emit="close", every_us=0, max_groups=None)


@st.composite
def chains(draw_one: st.DrawFn) -> Chain:
    inner = draw_one(inner_queries())
    names = [*inner.keys, "a"]
    keys = tuple(draw_one(st.lists(st.sampled_from(names), unique=True, max_size=2)))
    window = draw_one(st.one_of(draw.aligned, draw.cumulated, draw.sessions, draw.sliding))
    if isinstance(window, Sliding):
        partition = tuple(name for name in keys if draw_one(st.booleans()))
        window = replace(window, partition_by=partition, when=None)
    condition = st.builds(Condition, st.just("a"), st.sampled_from([">=", "<"]), st.integers(0, 3))
    outer = Query(
        window,
        keys,
        tuple(draw_one(st.lists(CALLS, min_size=1, max_size=2))),
        where=draw_one(st.none() | condition),
        having_rows=draw_one(st.sampled_from([None, None, 2])),
        data_driven=False,
        row_rule=inner.row_rule,
    )
    return Chain(inner, outer)
