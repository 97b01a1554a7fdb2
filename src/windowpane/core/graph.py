"""Operators as a graph: named outputs feed named inputs, and frames flow through it in micro-batches.

A linear query is a graph in which each node feeds the next one. Operators do not know the graph: `core/junction.py`
combines the messages of several inputs, and a frame goes to every consumer of the output it leaves by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import Frame, Given, SideRows
from windowpane.core.junction import Junction
from windowpane.core.operators.base import IN, Operator
from windowpane.core.routing import Route
from windowpane.core.state import EntryMap
from windowpane.errors import InternalError

OUT, SIDE = "out", "side"
"""The outputs of every operator: side rows leave by SIDE, everything else by OUT."""


@dataclass(frozen=True)
class Input:
    """Where one input of a node takes its frames from: an output of another node, or an entry of the graph."""

    source: str
    """A node's name. If the graph has no such node, it is an entry, which the host feeds."""
    port: str = IN
    """What the operator calls this input."""
    output: str = OUT
    route: Route | None = None
    """By which columns rows are shuffled, if the source runs at an earlier step."""


@dataclass
class Node:
    """An operator with its name, its inputs and its place in the query."""

    name: str
    operator: Operator
    inputs: tuple[Input, ...]
    stage: str = ""
    """The stage of the plan whose account contains the rows of this operator."""
    step: int = 1
    """How many shuffles rows have passed when they get here. At step 0, the operator runs in the tasks of the source,
    sees only a part of the rows and keeps no state."""
    key: str | None = None
    """What the names of its state entries begin with. None: its position among the nodes without a key."""
    routed_by: tuple[str, ...] | None = None
    """The columns of its rows that determine the shard. None: those of the rows it takes."""


class Graph:
    """Nodes in an order in which each follows those it takes frames from."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self._by_name = {node.name: node for node in nodes}
        _check(self.nodes)
        self._junctions = {node.name: Junction(node.inputs) for node in nodes if len(node.inputs) > 1}
        self._consumers: dict[tuple[str, str], list[tuple[Node, str]]] = {}
        for node in nodes:
            for each in node.inputs:
                self._consumers.setdefault((each.source, each.output), []).append((node, each.port))

    @classmethod
    def linear(cls, operators: Sequence[Operator], entry: str = IN) -> Graph:
        """Each operator feeds the next one."""
        names = [entry, *(f"{number}" for number in range(len(operators)))]
        return cls([Node(names[at + 1], each, (Input(names[at]),)) for at, each in enumerate(operators)])

    @property
    def entries(self) -> tuple[str, ...]:
        """Names under which the host feeds frames."""
        sources = dict.fromkeys(each.source for node in self.nodes for each in node.inputs)
        return tuple(source for source in sources if source not in self._by_name)

    @property
    def exits(self) -> tuple[str, ...]:
        """Names of the nodes whose output leaves the graph."""
        return tuple(node.name for node in self.nodes if (node.name, OUT) not in self._consumers)

    @property
    def operators(self) -> tuple[Operator, ...]:
        return tuple(node.operator for node in self.nodes)

    def feed(self, entry: str, frames: Iterable[Frame]) -> list[Given]:
        """What leaves the graph when frames enter it. Each goes all the way before the next one is taken."""
        return list(self.flow(entry, frames))

    def flow(self, entry: str, frames: Iterable[Frame]) -> Iterator[Given]:
        """The same one by one, so that nobody holds all of it: operators may give their frames one by one, too.

        The caller must take all of them before the graph is used again.
        """
        for frame in frames:
            yield from self._delivered(entry, frame)

    def _delivered(self, source: str, frame: Frame) -> Iterator[Given]:
        consumers = self._consumers.get((source, SIDE if isinstance(frame, SideRows) else OUT))
        if consumers is None:
            yield Given(source, frame)
            return
        for node, port in consumers:
            for arriving in self._arriving(node, port, source, frame):
                for made in node.operator.on_input(port, arriving):
                    yield from self._delivered(node.name, made)

    def _arriving(self, node: Node, port: str, source: str, frame: Frame) -> Sequence[Frame]:
        junction = self._junctions.get(node.name)
        if junction is None:
            return (frame,)
        upstream = self._by_name.get(source)
        announced = None if upstream is None else upstream.operator.watermark_us
        return junction.combine(port, frame, announced, node.operator.watermark_us)

    def watermark_before(self, entry: str) -> int | None:
        """The watermark against which rows of an entry are judged: that of the operator which moves its time."""
        watermark_us, source = None, entry
        while consumers := self._consumers.get((source, OUT)):
            node = consumers[0][0]
            watermark_us, source = node.operator.watermark_us, node.name
            if node.operator.moves_time:
                break
        return watermark_us

    @property
    def watermark_us(self) -> int | None:
        """Where time stands at the end of the graph: the smallest watermark of the nodes whose output leaves it."""
        found = self.watermarks().values()
        known = [us for us in found if us is not None]
        return min(known) if len(known) == len(found) else None

    @property
    def source_watermark_us(self) -> int | None:
        """Where time stands for the rows that enter: the smallest watermark against which they are judged."""
        found = [self.watermark_before(entry) for entry in self.entries]
        known = [us for us in found if us is not None]
        return min(known) if known and len(known) == len(found) else None

    def schemas(self, given: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
        """Schema of the batches that leave each node, for rows with these schemas at the entries."""
        found = dict(given)
        for node in self.nodes:
            found[node.name] = node.operator.schema_of({each.port: found[each.source] for each in node.inputs})
        return {name: schema for name, schema in found.items() if name in self._by_name}

    def cut(self) -> tuple[Graph, ...]:
        """The graph of each step. A node's output that crosses a shuffle is an entry of the next graph."""
        steps = {node.name: node.step for node in self.nodes}
        for node in self.nodes:
            if wrong := [each.source for each in node.inputs if not 0 <= node.step - steps.get(each.source, 0) <= 1]:
                raise InternalError("GRAPH", f"{node.name} runs at step {node.step}, and takes frames from {wrong}")
        last = max(steps.values(), default=0)
        return tuple(Graph([node for node in self.nodes if node.step == step]) for step in range(last + 1))

    def routes(self) -> dict[str, Route]:
        """By which columns the rows of each entry are shuffled."""
        inputs = [each for node in self.nodes for each in node.inputs if each.source not in self._by_name]
        found = {each.source: each.route for each in inputs if each.route is not None}
        if any(each.route != found.get(each.source) for each in inputs):
            raise InternalError("GRAPH", f"the rows of an entry are shuffled in different ways: {inputs}")
        return found

    def routed_by(self, node: Node) -> tuple[str, ...]:
        """The columns that determine on which shard the rows of a node are."""
        if node.routed_by is not None:
            return node.routed_by
        routes = self.routes()
        found = {
            self.routed_by(self._by_name[each.source])
            if each.source in self._by_name
            else routes.get(each.source, Route()).by
            for each in node.inputs
        }
        if len(found) != 1:
            raise InternalError("GRAPH", f"{node.name} takes rows that are shuffled by {sorted(found)}")
        return found.pop()

    def stage_of(self, name: str) -> str:
        """The stage whose account has the rows of a node; empty for the rows read."""
        return self._by_name[name].stage if name in self._by_name else ""

    def watermarks(self) -> dict[str, int | None]:
        """Where time stands at each node whose output leaves the graph."""
        return {name: self._by_name[name].operator.watermark_us for name in self.exits}

    def buffered(self) -> dict[str, int]:
        """Rows whose fate is undecided, by stage."""
        return {stage: sum(each.buffered() for each in members) for stage, members in self._stages().items()}

    def take_counts(self) -> dict[str, Accounting]:
        """The row counts of each stage since the last call, with the rows that are buffered now."""
        found: dict[str, Accounting] = {}
        for stage, members in self._stages().items():
            found[stage] = sum((operator.counts for operator in members), Accounting())
            found[stage].buffered = sum(operator.buffered() for operator in members)
            for operator in members:
                operator.counts = Accounting()
        return found

    def _stages(self) -> dict[str, list[Operator]]:
        found: dict[str, list[Operator]] = {}
        for node in self.nodes:
            found.setdefault(node.stage, []).append(node.operator)
        return found

    def keys(self) -> dict[str, Node]:
        """Nodes by what the names of their state entries begin with."""
        unnamed = iter(range(len(self.nodes)))
        return {(str(next(unnamed)) if node.key is None else node.key): node for node in self.nodes}

    def save(self, entries: EntryMap) -> None:
        """Write the state that has changed since `load` or the last `save`, as every host does after a micro-batch."""
        for key, node in self.keys().items():
            node.operator.save(entries.of_operator(key))

    def load(self, entries: EntryMap) -> None:
        """Take up the state that a graph of the same operators saved. An operator without entries starts empty."""
        for key, node in self.keys().items():
            own = entries.of_operator(key)
            if own.names():
                node.operator.load(own)


def _check(nodes: Sequence[Node]) -> None:
    """InternalError unless names differ and each node follows those it takes frames from."""
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        raise InternalError("GRAPH", f"nodes share a name: {names}")
    for position, node in enumerate(nodes):
        missing = set(node.operator.inputs) ^ {each.port for each in node.inputs}
        if missing:
            raise InternalError("GRAPH", f"{node.name} has the inputs {node.operator.inputs}, {missing} do not match")
        if later := [each.source for each in node.inputs if each.source in names[position:]]:
            raise InternalError("GRAPH", f"{node.name} takes frames from {later}, which do not come before it")
