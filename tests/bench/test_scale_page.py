"""docs/scale.md has the figures that `make bench-scale ARGS=--record` has recorded, and its model predicts them."""

from __future__ import annotations

import pytest

from bench.scale_model import PAGE, RECORD, TOLERANCE, Constants, Point, Record, Size, filled

recorded = pytest.mark.skipif(not RECORD.exists(), reason="no figures of `make bench-scale ARGS=--record` yet")


@recorded
def test_the_page_has_the_recorded_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, Record.load()) == page, "run: python -m bench.scale_model"


@recorded
def test_the_model_predicts_what_was_measured() -> None:
    record = Record.load()
    predicted = [point for point in record.points if not point.gives]
    assert len(predicted) >= 8
    assert [point for point in predicted if abs(record.error(point)) > TOLERANCE] == record.misses() == []


def test_the_parts_of_a_micro_batch_add_up() -> None:
    constants = Constants(1.0, 0.2, 0.4, 1e-6, 1e-5, 0.01, 0, 0, 0)
    size = Size(tasks=4, shards=2, rows=1e6, partials=1e5)
    assert constants.seconds(size, 2) == pytest.approx(1 + 0.006 + 0.4 + 0.4 + 0.04 + 0.5 + 0.5)
    record = Record(constants, [Point(size, 2.0), Point(size, 2.846), Point(size, 2.0, "row")], "a machine")
    assert record.misses() == [Point(size, 2.0)]
