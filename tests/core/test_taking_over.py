"""Operators whose state can be divided among another number of shards: they list all that they keep."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pytest

from tests.spark.staged import Layout, rescale, staged
from windowpane.core import operators
from windowpane.core.graph import Graph
from windowpane.core.operators.base import Operator
from windowpane.core.operators.taking_over import take_over
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Owned
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.state import EntryMap, Header, StateEntries
from windowpane.errors import InternalError, StateError
from windowpane.testing import Harness

pytestmark = pytest.mark.slow

STREAM = {"s": {"schema": "ts BIGINT, k STRING, v BIGINT"}}
QUERIES = [
    f"SELECT k, {call} FROM s GROUP BY {window}, k"
    for call in ("count(*) AS n", "percentile(v, 0.5) AS n")
    for window in (
        "tumblingwindow('ss', 3)",
        "sessionwindow('ss', 3)",
        "slidingwindow('ss', 3)",
        "countwindow(3)",
    )
]


def _classes() -> list[type[Operator]]:
    for module in pkgutil.iter_modules(operators.__path__, "windowpane.core.operators."):
        importlib.import_module(module.name)

    def below(kind: type[Operator]) -> Iterator[type[Operator]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    return [kind for kind in below(Operator) if kind.__module__.startswith("windowpane.")]


@pytest.mark.parametrize("kind", _classes(), ids=lambda kind: kind.__name__)
def test_an_operator_with_entries_lists_them(kind: type[Operator]) -> None:
    assert (kind.save is Operator.save) == (kind.divided is Operator.divided)


def _kept(value: object, depth: int = 3) -> Iterator[object]:
    """All panes and segmented rows that an object has, directly or not."""
    if isinstance(value, Panes | SegmentedRows):
        yield value
    elif depth and type(value).__module__.startswith("windowpane."):
        for each in vars(value).values() if hasattr(value, "__dict__") else ():
            yield from _kept(each, depth - 1)


@pytest.mark.parametrize("sql", QUERIES)
def test_it_lists_all_of_them(sql: str) -> None:
    harness = Harness(sql, streams=STREAM, transform={"dedupe": {"key": ["v"], "within": "5s"}})
    graph: Graph = harness._runner.graph
    for operator in graph.operators:
        listed = {id(each) for each in (*operator.divided(), *operator.repeated())}
        assert listed == {id(each) for each in _kept(operator)}, operator


class Hoarder(Operator):
    """Keeps entries, and does not say how they are divided."""

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        entries.write("more", b"")


class Reader(Operator):
    """Keeps a table in its header."""

    table = pa.RecordBatch.from_pydict({"k": ["a", "b", "c", "d", "e"]})

    def header(self) -> Header:
        return Header(tables={"rows": self.table})

    def load_header(self, header: Header) -> None:
        self.table = header.tables.get("rows", self.table.slice(0, 0))


def _taken(operator: Operator, owned: Owned) -> Operator:
    entries = EntryMap({})
    graph = Graph.linear([operator])
    graph.save(entries)
    made = Graph.linear([type(operator)()])
    take_over(made, [(Graph.linear([type(operator)()]), entries)], owned, EntryMap({}))
    return made.operators[0]


def test_an_operator_that_does_not_say_how_is_refused() -> None:
    with pytest.raises(StateError, match="Hoarder does not support it"):
        _taken(Hoarder(), Owned(0, 2))


def test_rows_without_the_column_that_decides_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graph, "routed_by", lambda *_: ("other",))
    with pytest.raises(StateError, match="do not have the column `other`"):
        _taken(Reader(), Owned(0, 2))


def test_a_column_may_have_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes and operators know a column by different names, if a query uses it as a group and for dedupe."""
    monkeypatch.setattr(Graph, "routed_by", lambda *_: ("group0",))
    parts = [_taken(Reader(), Owned(shard, 3, aliases={"group0": "c1", "k": "c1"})) for shard in range(3)]
    found = [part.header().tables["rows"].column("k").to_pylist() for part in parts]
    assert sorted(chain.from_iterable(found)) == ["a", "b", "c", "d", "e"]
    assert len([part for part in found if part]) > 1


def test_shards_that_disagree_are_not_joined() -> None:
    stored = []
    for clock_us in (1, 2):
        operator, entries = Operator(), EntryMap({})
        operator.clock_us = clock_us
        Graph.linear([operator]).save(entries)
        stored.append((Graph.linear([Operator()]), entries))
    with pytest.raises(InternalError, match="disagree"):
        take_over(Graph.linear([Operator()]), stored, Owned(0, 1), EntryMap({}))


TIMED = {"s": STREAM["s"] | {"eventtime": {"column": "ts", "type": "unixtimestamp_s"}}}
OPTIONS = {"eventtime.enabled": True, "eventtime.late_tolerance": "3s", "max_future_skew": "off"}
WAITING = {
    "a quota counted by window": (QUERIES[0], {"limits": {"max_groups": 3}}),
    "a quota behind dedupe": (QUERIES[0], {"limits": {"max_groups": 3}, "dedupe": {"key": ["v"], "within": "5s"}}),
    "triggers that wait": (
        "SELECT k, sum(v) AS n FROM s GROUP BY slidingwindow('ss', 5, 4) OVER (PARTITION BY k), k",
        {},
    ),
    "triggers that all shards know": ("SELECT k, sum(v) AS n FROM s GROUP BY slidingwindow('ss', 5, 4), k", {}),
}


@pytest.mark.parametrize("shards", [1, 3, 5])
@pytest.mark.parametrize("name", WAITING)
def test_what_waits_in_the_state_is_taken_over(name: str, shards: int) -> None:
    sql, transform = WAITING[name]
    found = []
    for becomes in (2, shards):
        harness = staged(Layout(2), sql, streams=TIMED, options=OPTIONS, transform=transform, now=0)
        steps = [harness.push(_rows(step), at=step * 1_000_000) for step in range(3)]
        if becomes != 2:
            rescale(harness, becomes)
        steps += [harness.push(_rows(step), at=step * 1_000_000) for step in range(3, 6)] + [harness.end()]
        found.append([(sorted(map(repr, step.rows)), len(step.side), step.accounting.as_dict()) for step in steps])
    assert found[0] == found[1]


def _rows(step: int) -> list[dict[str, object]]:
    """Seven groups, some of which come in the same windows later."""
    return [
        {"ts": step * 2 + row % 3, "k": "abcdefg"[(row * 3 + step) % 7], "v": step * 50 + row % 9} for row in range(12)
    ]
