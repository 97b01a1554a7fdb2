"""Rows get the numbers that counting all of them from the start would give, wherever and however large portions are."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.accumulators import Inputs, build_accumulator, names, resolve
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.frames import Given, GroupRequests, MaybeLateRows, Partials, Rows, SideRows, TriggerTimes
from windowpane.core.groups import Groups
from windowpane.core.numbering import END, Numbers, Place, Portion, numbered, shifted
from windowpane.core.wire import StageMessage
from windowpane.errors import StateError

COUNT = 7
PARAMS = dict.fromkeys(("percentile", "approx_percentile", "percentile_cont", "percentile_disc"), (0.5,)) | {
    "histogram_numeric": (3,)
}
CALLS = [*((name, PARAMS.get(resolve(name).name, ())) for name in names()), ("max_by", (2,))]
BY = (1 << 62) + 12_345


def rows(arrivals: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array([0] * len(arrivals)), c.ARRIVAL: pa.array(arrivals)})


def arrivals(frames: list[Given]) -> list[list[int]]:
    return [frame.batch.column(c.ARRIVAL).to_pylist() for _, frame in frames if isinstance(frame, Rows)]


def arguments(name: str) -> list[pa.Array]:
    function = resolve(name)
    count = max(1, min(function.min_args, function.max_args - function.params))
    values = pa.array([3, None, 1, 3, 2, 2, 1], pa.int64())
    flags = pa.array([True, None, False, True, True, False, True])
    if function.name == "listagg":
        return [values.cast(pa.string())]
    return [flags if function.name in ("count_if", "bool_and", "bool_or") else values] * count


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(("name", "params"), CALLS, ids=[f"{name}{len(params)}" for name, params in CALLS])
def test_state_that_is_shifted_is_the_state_of_rows_that_are_numbered_so_from_the_start(
    name: str, params: tuple[object, ...], distinct: bool
) -> None:
    args, function = arguments(name), resolve(name)
    if distinct and (not function.takes_distinct or (function.parameters_change_result and params)):
        pytest.skip("takes no DISTINCT")
    accumulator = build_accumulator(name, [each.type for each in args], params, distinct)
    groups = Groups(np.array([0, 0, 1, 0, 1, 1, 0]), 3)  # the last one has no rows: NULLs and empty lists
    counted = np.arange(COUNT)
    by_name = {
        first: pa.RecordBatch.from_arrays(
            accumulator.update(Inputs(args, np.zeros(COUNT, np.int64), first + counted), groups),
            [f"_a0.{index}" for index in range(len(accumulator.state_types))],
        )
        for first in (0, BY)
    }
    kept = [f"_a0.{index}" for index in accumulator.arrival_states]
    for start in (0, 1):
        moved = shifted(Partials(by_name[0].slice(start)), BY, kept)
        assert isinstance(moved, Partials)
        moved.batch.validate(full=True)
        assert moved.batch.equals(by_name[BY].slice(start))


def test_an_aggregator_names_the_state_columns_that_keep_numbers() -> None:
    schema = pa.schema([("x", pa.int64()), (c.EVENT_TIME, pa.int64()), (c.ARRIVAL, pa.int64())])
    calls = [Call("_a0", "sum", ("x",)), Call("_a1", "first", ("x",)), Call("_a2", "collect_list", ("x",))]
    assert Aggregator(calls, [], schema).arrival_names == ("_a1.2", "_a2.2")


@pytest.mark.parametrize("kind", [Rows, MaybeLateRows, TriggerTimes, GroupRequests, SideRows])
def test_every_kind_of_frame_with_the_column_is_shifted(kind: type[Rows]) -> None:
    moved = shifted(kind(rows([0, 1])), 5, ())
    assert type(moved) is kind
    assert moved.batch.column(c.ARRIVAL).to_pylist() == [5, 6]


def test_numbers_go_on_from_portion_to_portion_beyond_what_tasks_and_rows_were_once_limited_to() -> None:
    tasks = [Portion(rows=2, frames=[Given("s", Rows(rows([0, 1])))]) for _ in range(5000)]
    tasks[4096].rows += 1 << 33
    sent = numbered(tasks, Numbers.onwards(7), ())
    found = arrivals(sent)
    assert found[:2] == [[7, 8], [9, 10]]
    assert found[4096] == [7 + 2 * 4096, 8 + 2 * 4096]
    assert found[4097] == [7 + 2 * 4097 + (1 << 33), 8 + 2 * 4097 + (1 << 33)]
    flat = [number for part in found for number in part]
    assert flat == sorted(set(flat))


def test_portions_are_numbered_by_place_then_by_task() -> None:
    late, early, first = Place(2, "a"), Place(1, "b"), Place(1, "a", 4)
    portions = [Portion(place, 1, [Given("s", Rows(rows([0]).slice(0, 1)))]) for place in (late, early, first, late)]
    for number, portion in enumerate(portions):
        portion.rows = 10**number
    assert arrivals(numbered(portions, Numbers(0, 5000), ())) == [[0], [100], [110], [111]]


def test_a_host_that_counts_no_rows_has_numbers_for_each_batch_at_once() -> None:
    old_bound = 1 << 23
    before, then = Numbers.of_batch(old_bound - 1), Numbers.of_batch(old_bound)
    assert before.first + before.room == then.first
    assert then.first > (old_bound - 1) << 39
    last = Numbers.of_batch((1 << 30) - 1)
    assert last.first + last.room == END


@pytest.mark.parametrize(
    ("numbers", "taken"),
    [(Numbers.of_batch(3), (1 << 32) + 1), (Numbers.of_batch(1 << 30), 1), (Numbers.onwards(END - 1), 2)],
)
def test_numbers_that_run_out_are_an_error_that_says_so(numbers: Numbers, taken: int) -> None:
    with pytest.raises(StateError, match="arrival numbers are left") as raised:
        numbered([Portion(rows=taken)], numbers, ())
    assert raised.value.code == "ARRIVALS_EXHAUSTED"


def test_the_last_number_can_be_used() -> None:
    assert arrivals(
        numbered([Portion(rows=1, frames=[Given("s", Rows(rows([0])))])], Numbers.onwards(END - 1), ())
    ) == [[END - 1]]


def test_portions_travel() -> None:
    portions = [
        Portion(Place(5, "ü b", 9), 3, [Given("s", Rows(rows([0]))), Given("t", Rows(rows([1])))]),
        Portion(rows=1 << 40),
    ]
    sent = StageMessage(portions, 7, Numbers(1, 2), Accounting(in_=4), {"read": 5}, {"s": 6, "t": None})
    found = StageMessage.unpack(sent.pack())
    assert [(each.place, each.rows, [source for source, _ in each.frames]) for each in found.portions] == [
        (Place(5, "ü b", 9), 3, ["s", "t"]),
        (Place(), 1 << 40, []),
    ]
    assert replace(found, portions=portions) == sent


def test_files_stand_by_time_then_as_folders_are_listed() -> None:
    ordered = ["/d/a", "/d/a b", "/d/b", "/d/a/z", "/d/a/c/a", "/d/a b/a", "/d/ab/a"]
    places = [Place.of_file(5, path) for path in ordered]
    places = [Place(), Place.of_file(4, "/z"), *places, Place.of_file(5, ordered[-1], 8), Place.of_file(6, "/a")]
    assert sorted(random.Random(1).sample(places, len(places))) == places
