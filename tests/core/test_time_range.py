"""Ranges of event time: which rows and results lie in them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.time_range import ALWAYS, TimeRange


@pytest.mark.parametrize(
    ("asked", "inside"),
    [
        (TimeRange(0, 10), [0, 9, None]),
        (TimeRange(-5, 0), [-5, -1, None]),
        (TimeRange(0, 0), [None]),
        (TimeRange(10, None), [10, None]),
        (TimeRange(None, 0), [-5, -1, None]),
        (ALWAYS, [-5, -1, 0, 9, 10, None]),
    ],
)
def test_a_range_includes_its_start_and_excludes_its_end(asked: TimeRange, inside: list[int | None]) -> None:
    rows = pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array([-5, -1, 0, 9, 10, None], pa.int64())})
    assert asked.rows(rows).column(0).to_pylist() == inside


def test_no_rows() -> None:
    rows = pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array([], pa.int64())})
    assert TimeRange(0, 10).rows(rows).num_rows == 0


def test_results_count_by_trigger_then_by_the_start_of_the_window_then_by_their_time() -> None:
    columns = {c.EVENT_TIME: [1, 2, 3], c.WINDOW_START: [2, 3, 1], c.TRIGGER: [3, 1, 2]}
    for column, *others in ((c.TRIGGER, c.WINDOW_START, c.EVENT_TIME), (c.WINDOW_START, c.EVENT_TIME), (c.EVENT_TIME,)):
        batch = pa.RecordBatch.from_pydict({name: columns[name] for name in (column, *others)})
        assert TimeRange(2, 3).results(batch).column(column).to_pylist() == [2]
