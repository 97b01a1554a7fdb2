"""Graphs of operators beyond a line: two inputs, several consumers, a stage behind a stage. No SQL reaches them yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.emission import EmitPolicy
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Emissions, Frame, Progress, Rows, Watermark
from windowpane.core.graph import Graph, Input, Node
from windowpane.core.junction import Junction
from windowpane.core.operators.base import Operator
from windowpane.core.operators.chained import ResultIntake, ResultsAsRows
from windowpane.core.operators.intake import Intake
from windowpane.core.operators.watermark import EventtimeWatermark
from windowpane.core.operators.window_kinds import WindowSettings, aggregating_operators
from windowpane.core.rows import Int64s, RowBuffer, int64s, select
from windowpane.core.runner import BatchResult, Runner
from windowpane.core.side import Key
from windowpane.core.state import EntryMap, Header
from windowpane.core.windows import Hopping, Tumbling, WindowSpec
from windowpane.errors import InternalError

S = 1_000_000
KEYS = (Key("_k0", "k"),)
Batches = Mapping[str, pa.RecordBatch]


def rows(*pairs: tuple[int, str], stream: str = "s", first: int = 0) -> pa.RecordBatch:
    """Rows at whole seconds, each with a key; the value of each is its second."""
    times = [second for second, _ in pairs]
    return pa.RecordBatch.from_pydict(
        {
            c.EVENT_TIME: pa.array([second * S for second in times], pa.int64()),
            c.ARRIVAL: pa.array(range(first, first + len(pairs)), pa.int64()),
            c.SOURCE_PARTITION: pa.array([f"{stream}/0"] * len(pairs)),
            "_k0": pa.array([key for _, key in pairs], pa.string()),
            "_a0_0": pa.array(times, pa.int64()),
        }
    )


class ToyJoin(Operator):
    """Pairs of rows with the same key and time, made when the watermark of both sides passes them."""

    inputs = ("left", "right")

    def __init__(self) -> None:
        super().__init__()
        self.sides = {port: RowBuffer() for port in self.inputs}

    def on_input(self, port: str, frame: Frame) -> Iterable[Frame]:
        if not isinstance(frame, Rows):
            return self.on_frame(frame)
        self.sides[port].append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._pairs(self.watermark_us), frame]

    def on_end(self) -> list[Frame]:
        return [*self._pairs(1 << 62), ControlSignal.END]

    def _pairs(self, until_us: int | None) -> list[Frame]:
        due = {port: self._take(port, until_us) for port in self.inputs if until_us is not None}
        self.counts.aggregated += sum(len(found) for found in due.values())
        pairs = sorted(set(due.get("left", ())) & set(due.get("right", ())))
        columns = {c.WINDOW_END: [at for at, _ in pairs], "_k0": [key for _, key in pairs]}
        return [Emissions(pa.RecordBatch.from_pydict(columns))] if pairs else []

    def _take(self, port: str, until_us: int | None) -> list[tuple[int, str]]:
        held = self.sides[port].rows()
        if held is None or until_us is None:
            return []
        due = int64s(held, c.EVENT_TIME) <= until_us
        self.sides[port].replace(select(held, ~due))
        return [(row[c.EVENT_TIME], row["_k0"]) for row in select(held, due).to_pylist()]

    def buffered(self) -> int:
        return sum(len(buffer) for buffer in self.sides.values())

    def schema_of(self, given: Mapping[str, pa.Schema]) -> pa.Schema:
        return pa.schema([(c.WINDOW_END, pa.int64()), ("_k0", given["left"].field("_k0").type)])

    def header(self) -> Header:
        return Header({}, {k: v for port in self.inputs for k, v in self.sides[port].tables(port).items()})

    def load_header(self, header: Header) -> None:
        for port in self.inputs:
            self.sides[port].replace(header.tables.get(port))


def summing(spec: WindowSpec, schema: pa.Schema, value: str = "_a0_0") -> list[Operator]:
    """A window that adds up a column per key, as partial and merging half."""
    return aggregating_operators(
        WindowSettings(spec, keys=KEYS, emit=EmitPolicy()), Aggregator([Call("_a0", "sum", (value,))], ["_k0"], schema)
    )


def line(entry: str, operators: Sequence[Operator], stage: str, *, folding: int = 0) -> list[Node]:
    """Operators in a row behind an entry or a node."""
    nodes, source = list[Node](), entry
    for position, operator in enumerate(operators):
        name = f"{stage}.{position}"
        nodes.append(Node(name, operator, (Input(source),), stage, step=0 if position < folding else 1, key=name))
        source = name
    return nodes


def joined() -> Graph:
    """Two streams, each with its own event time and watermark, and the join of both."""
    left = line("a", [Intake(), EventtimeWatermark(streams=["a"])], "a")
    right = line("b", [Intake(), EventtimeWatermark(streams=["b"])], "b")
    for node in (*left, *right):
        node.stage = "join"
    return Graph([*left, *right, Node("join", ToyJoin(), (Input("a.1", "left"), Input("b.1", "right")), "join")])


def fanned() -> Graph:
    """Two queries over one scan: each judges and counts the rows of the scan by itself."""
    schema = rows().schema
    queries = {"small": Tumbling(10 * S), "large": Hopping(60 * S, 20 * S)}
    nodes = [
        node
        for name, spec in queries.items()
        for node in line("scan", [Intake(KEYS), EventtimeWatermark(), *summing(spec, schema)], name)
    ]
    return Graph(nodes)


def chained() -> Graph:
    """Sums of a second, and the sums of these of a minute."""
    inner = [Intake(KEYS), EventtimeWatermark(), *summing(Tumbling(S), rows().schema)]
    between = ResultsAsRows(SumsAsRows(), delay_us=1)
    graph = Graph(line("s", inner, "second"))
    given = between.output_schema(graph.schemas({"s": rows().schema})["second.3"])
    outer = [between, ResultIntake(KEYS), *summing(Tumbling(60 * S), given, "_a1_0")]
    return Graph([*graph.nodes, *line("second.3", outer, "minute")])


class SumsAsRows:
    """The sum of a result is the value of a row."""

    compares = False

    def rows(self, results: pa.RecordBatch, times: Int64s, clock_us: int) -> pa.RecordBatch:
        columns = {c.EVENT_TIME: pa.array(times), "_k0": results.column("_k0"), "_a1_0": results.column("_a0")}
        return pa.RecordBatch.from_pydict(columns)


Step = Mapping[str, list[tuple[int, str]]]
A_AND_B: list[Step] = [
    {"a": [(1, "x"), (5, "x"), (9, "y")], "b": [(1, "x")]},
    {"b": [(5, "x"), (8, "z")]},
    {"a": [(20, "z")], "b": [(9, "y"), (20, "z"), (30, "w")]},
    {"a": [(31, "w")]},
]
ONE: list[Step] = [
    {"*": [(1, "x"), (2, "x"), (3, "y"), (25, "x")]},
    {"*": [(30, "y"), (61, "x"), (4, "late")]},
    {},
    {"*": [(62, "x"), (125, "y"), (130, "x")]},
]


def play(build: Callable[[], Graph], steps: Sequence[Step], *, restarts: bool) -> list[BatchResult]:
    """All micro-batches and the end. `restarts`: a new graph takes up the state after each of them."""
    runner, results, arrived, entries = Runner(build()), list[BatchResult](), 0, EntryMap({})
    for clock_us, step in enumerate(steps):
        (entry, *_) = runner.graph.entries
        given = {}
        for name, pairs in step.items():
            given[entry if name == "*" else name] = [rows(*pairs, stream=name, first=arrived)]
            arrived += len(pairs)
        results.append(runner.run_batch(clock_us, given))
        if restarts:
            runner.graph.save(entries)
            runner, entries = Runner(build()), EntryMap(entries.merged())
            runner.graph.load(entries)
    return [*results, runner.end(len(steps))]


def emitted(results: Iterable[BatchResult]) -> list[dict[str, list[dict[str, Any]]]]:
    return [
        {name: [row for batch in batches for row in batch.to_pylist()] for name, batches in result.emissions.items()}
        for result in results
    ]


def sums(results: Sequence[BatchResult], node: str) -> dict[tuple[int, str], int]:
    """The results that left a node, by the second at which the window starts and by key."""
    found = [row for step in emitted(results) for row in step.get(node, [])]
    assert len({(row[c.WINDOW_START], row["_k0"]) for row in found}) == len(found), "a window came out twice"
    return {(row[c.WINDOW_START] // S, row["_k0"]): row["_a0"] for row in found}


def totals(results: Sequence[BatchResult], stage: str) -> Accounting:
    return sum((result.accounts[stage] for result in results[:-1]), Accounting())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_join_waits_for_the_slower_of_its_inputs(restarts: bool) -> None:
    results = play(joined, A_AND_B, restarts=restarts)
    pairs = [[(row[c.WINDOW_END] // S, row["_k0"]) for row in step.get("join", [])] for step in emitted(results)]
    assert pairs == [[(1, "x")], [(5, "x")], [(9, "y"), (20, "z")], [], []]
    assert [result.watermark_us for result in results] == [S, 8 * S, 20 * S, 30 * S, 30 * S]
    counts = totals(results, "join")
    assert (counts.in_, counts.aggregated, results[-2].accounts["join"].buffered) == (11, 10, 1)


@pytest.mark.parametrize("restarts", [False, True])
def test_queries_over_one_scan_do_not_notice_each_other(restarts: bool) -> None:
    results = play(fanned, ONE, restarts=restarts)
    alone = {
        "small": line("scan", [Intake(KEYS), EventtimeWatermark(), *summing(Tumbling(10 * S), rows().schema)], "small"),
        "large": line(
            "scan", [Intake(KEYS), EventtimeWatermark(), *summing(Hopping(60 * S, 20 * S), rows().schema)], "large"
        ),
    }
    for name, nodes in alone.items():
        expected = play(lambda nodes=nodes: Graph(nodes), ONE, restarts=False)  # type: ignore[misc]
        assert sums(results, f"{name}.3") == sums(expected, f"{name}.3")
        assert [result.accounts[name] for result in results] == [result.accounts[name] for result in expected]
    assert totals(results, "small").late == 1
    assert totals(results, "large").late == 0, "a window of a minute is still open for it"
    assert [batch.column("kind").to_pylist() for result in results for batch in result.side] == [["late"]]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stage_behind_a_stage_gives_what_a_batch_query_gives(restarts: bool) -> None:
    results = play(chained, ONE, restarts=restarts)
    assert sums(results, "minute.3") == {(0, "x"): 28, (0, "y"): 33, (60, "x"): 123, (120, "x"): 130, (120, "y"): 125}
    inner, outer = totals(results, "second"), totals(results, "minute")
    assert (inner.in_, inner.aggregated, inner.late) == (10, 9, 1)
    assert outer.late == 0, "no result of the inner stage is late in the outer one"
    assert outer.in_ == outer.aggregated == 8, "the window of second 130 is open until the end"
    assert {name for step in emitted(results) for name in step} == {"minute.3"}


@pytest.mark.parametrize("build", [joined, fanned, chained])
def test_the_end_empties_every_stage(build: Callable[[], Graph]) -> None:
    last = play(build, A_AND_B if build is joined else ONE, restarts=False)[-1]
    assert {stage: account.buffered for stage, account in last.accounts.items()} == dict.fromkeys(last.accounts, 0)


def test_a_graph_is_cut_where_its_nodes_say() -> None:
    """What is folded before the shuffle and merged after it is what one process computes."""
    schema = rows().schema
    operators = [Intake(KEYS), *summing(Tumbling(10 * S), schema)]
    fold, merge = Graph(line("s", operators, "q", folding=2)).cut()
    assert (fold.entries, fold.exits) == (("s",), ("q.1",))
    assert (merge.entries, merge.exits) == (("q.1",), ("q.2",))
    frames: list[Frame] = [Clock(0), Rows(rows((1, "x"), (2, "x")))]
    crossing = [given.frame for given in fold.feed("s", frames)]
    given = merge.feed("q.1", [*crossing, Watermark(10 * S), BatchEnd()])
    found = [row for each in given if isinstance(each.frame, Emissions) for row in each.frame.batch.to_pylist()]
    assert [(row["_k0"], row["_a0"]) for row in found] == [("x", 3)]


def test_state_entries_have_the_names_of_older_checkpoints_where_nodes_have_no_key() -> None:
    numbered, named = EntryMap({}), EntryMap({})
    Graph.linear([Intake(), EventtimeWatermark()]).save(numbered)
    chained().save(named)
    assert set(numbered.names()) == {"0/", "1/"}
    assert {name.partition("/")[0] for name in named.names()} == {node.name for node in chained().nodes}


def test_a_junction_moves_time_once_after_all_data() -> None:
    """Messages of the host: a clock, the watermark before, data, the watermark after, the end."""
    junction = Junction([Input("a", "left"), Input("b", "right")])
    progress = Progress({})

    def take(port: str, *frames: Frame) -> list[Frame]:
        return [given for frame in frames for given in junction.combine(port, frame, None, 5)]

    for _ in range(2):
        assert take("left", Clock(1), Watermark(5), progress, Watermark(9), BatchEnd()) == [Clock(1), progress]
        assert take("right", Clock(1), Watermark(7), progress, BatchEnd()) == [progress, Watermark(7), BatchEnd()]
    assert take("left", Clock(2), BatchEnd()) == [Clock(2)]
    assert take("right", Clock(2), Watermark(8), BatchEnd()) == [BatchEnd()], "nothing is known of the left side"
    assert take("left", ControlSignal.END) == []
    assert take("right", ControlSignal.END) == [ControlSignal.END]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([Node("a", Intake(), (Input("s"),)), Node("a", Intake(), (Input("s"),))], "share a name"),
        ([Node("a", Intake(), (Input("b"),)), Node("b", Intake(), (Input("s"),))], "do not come before"),
        ([Node("a", ToyJoin(), (Input("s", "left"),))], "right"),
    ],
)
def test_a_graph_that_cannot_run_is_refused(nodes: list[Node], said: str) -> None:
    with pytest.raises(InternalError, match=said):
        Graph(nodes)


def test_no_node_before_the_shuffle_takes_rows_from_behind_it() -> None:
    first, second = line("s", [Intake(), Intake()], "q")
    second.step = 0
    with pytest.raises(InternalError, match="takes frames from"):
        Graph([first, second]).cut()
