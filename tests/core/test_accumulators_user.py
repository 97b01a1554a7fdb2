"""Users' own aggregates: the example of docs/aggregates.md as it stands there, and what the base class promises."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from windowpane.core.accumulators import Inputs, UserAggregate, build_accumulator, registry, resolve
from windowpane.core.groups import Groups
from windowpane.errors import PlanError, WindowpaneError
from windowpane.testing import Harness

DOCUMENT = Path(__file__).parents[2] / "docs" / "aggregates.md"


@pytest.fixture(autouse=True)
def registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_functions", dict(registry._functions))


@pytest.fixture
def documented() -> None:
    (example,) = re.findall(r"```python\n(from __future__.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(DOCUMENT), "exec"), {"__name__": "example"})


class Spelled(UserAggregate):
    """Joins texts in the order of rows, with a separator given as a literal."""

    name = "spelled"
    input_types = (pa.string(),)
    state_types = (pa.list_(pa.string()), pa.int64())
    output_type = pa.string()
    params = 1

    def __init__(self, separator: str) -> None:
        self._separator = separator

    def update(self, *values: pa.Array) -> object:
        return values[0].to_pylist(), len(values[0])

    def merge(self, left: object, right: object) -> object:
        assert isinstance(left, tuple)
        assert isinstance(right, tuple)
        return left[0] + right[0], left[1] + right[1]

    def evaluate(self, state: object) -> object:
        assert isinstance(state, tuple)
        return self._separator.join(state[0]) if state[1] else None


class Failing(Spelled):
    name = "failing"

    def evaluate(self, state: object) -> object:
        raise ZeroDivisionError("by me")


def texts(*values: str | None) -> Inputs:
    backwards = np.arange(len(values), dtype=np.int64)[::-1]
    return Inputs([pa.array(values, pa.string())], backwards, backwards)


def test_the_documented_example_runs(documented: None) -> None:
    accumulator = build_accumulator("geometric_mean", [pa.int32()])
    places = np.arange(4, dtype=np.int64)
    rows = Inputs([pa.array([2, 8, None, 5], pa.int32())], places, places)
    states = accumulator.update(rows, Groups(np.array([0, 0, 0, 1]), 3))
    assert accumulator.evaluate(states).values.to_pylist() == pytest.approx([4.0, 5.0, None])
    merged = accumulator.merge(states, Groups(np.array([1, 1, 0]), 2))
    assert accumulator.evaluate(merged).values.to_pylist() == pytest.approx([None, 80 ** (1 / 3)])
    assert resolve("GEOMETRIC_MEAN").incremental


def test_rows_come_in_order_and_literals_reach_the_constructor() -> None:
    registry.register(Spelled)
    accumulator = build_accumulator("spelled", [pa.string()], ("-",))
    states = accumulator.update(texts("c", None, "b", "a"), Groups(np.array([0, 0, 0, 0]), 2))
    assert accumulator.evaluate(states).values.to_pylist() == ["a-b-c", None]
    assert not resolve("spelled").incremental


def test_groups_without_states_merge_to_the_empty_state() -> None:
    registry.register(Spelled)
    accumulator = build_accumulator("spelled", [pa.string()], ("",))
    states = accumulator.update(texts("a", "b"), Groups(np.array([0, 1]), 2))
    merged = accumulator.merge(states, Groups(np.array([2, 2]), 3))
    assert accumulator.evaluate(merged).values.to_pylist() == [None, None, "ab"]


def test_sliding_windows_give_users_own_the_rows_of_each_window() -> None:
    """It cannot aggregate ranges, so that the window is not fused with it."""
    registry.register(Spelled)
    sql = "SELECT spelled(w, '-') AS all, count(*) AS n FROM s GROUP BY slidingwindow('ss', 2, 1) OVER (PARTITION BY k)"
    stream = {"schema": "ts BIGINT, k BIGINT, w STRING", "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}
    harness = Harness(sql, streams={"s": stream}, options={"eventtime.enabled": True, "max_future_skew": "off"})
    assert not harness.plan.stages.window.fused
    rows = [{"ts": at, "k": at % 2, "w": word} for at, word in enumerate("abcdef")]
    given = [*harness.push(rows[:4]).rows, *harness.push(rows[4:]).rows, *harness.end().rows]
    assert [(row["all"], row["n"]) for row in given] == [
        ("a", 1), ("b", 1), ("a-c", 2), ("b-d", 2), ("c-e", 2), ("d-f", 2)
    ]  # fmt: skip


def test_distinct_works_for_users_own() -> None:
    registry.register(Spelled)
    accumulator = build_accumulator("spelled", [pa.string()], ("",), True)
    states = accumulator.update(texts("a", "b", "a"), Groups(np.zeros(3, np.int64), 1))
    assert accumulator.evaluate(states).values.to_pylist() == ["ab"]


def test_a_type_that_was_not_declared_is_refused() -> None:
    registry.register(Spelled)
    with pytest.raises(PlanError) as caught:
        build_accumulator("spelled", [pa.int64()], ("",))
    assert (caught.value.code, caught.value.hint) == ("AGGREGATE_TYPE", "it takes STRING")


def test_a_failure_in_the_users_code_names_the_aggregate_and_the_step() -> None:
    registry.register(Failing)
    accumulator = build_accumulator("failing", [pa.string()], ("",))
    states = accumulator.update(texts("a"), Groups(np.zeros(1, np.int64), 1))
    with pytest.raises(WindowpaneError, match=r"`failing` failed in `evaluate`: ZeroDivisionError: by me") as caught:
        accumulator.evaluate(states)
    assert caught.value.code == "USER_AGGREGATE_FAILED"
