"""docs/scale.md has the figures that `make bench-scale ARGS=--record` has recorded, and its model predicts them."""

from __future__ import annotations

import pytest

from bench.scale_model import PAGE, RECORD, TOLERANCE, Constants, Point, Record, Size, filled, fit

recorded = pytest.mark.skipif(not RECORD.exists(), reason="no figures of `make bench-scale ARGS=--record` yet")


@recorded
def test_the_page_has_the_recorded_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, Record.load()) == page, "run: python -m bench.scale_model"


@recorded
def test_the_model_predicts_what_was_measured() -> None:
    record = Record.load()
    predicted = [point for point in record.points if not point.fitted]
    assert len(predicted) >= 8
    assert [point for point in predicted if abs(record.error(point)) > TOLERANCE] == record.misses() == []


def test_the_parts_of_a_micro_batch_add_up() -> None:
    constants = Constants(1.0, 0.2, 0.4, 1e-6, 1e-5, 0.01, 0, 0, 0)
    size = Size(tasks=4, shards=2, rows=1e6, partials=1e5)
    assert constants.seconds(size, 2) == pytest.approx(1 + 0.006 + 0.4 + 0.4 + 0.04 + 0.5 + 0.5)
    record = Record(constants, [Point(size, 2.0), Point(size, 2.846), Point(size, 2.0, fitted=True)], "a machine")
    assert record.misses() == [Point(size, 2.0)]


def test_the_constants_are_found_in_exact_measurements() -> None:
    constants = Constants(0.1, 0.02, 0.05, 5e-8, 1e-6, 1e-4, 0, 0, 0)
    sizes = [
        (1, 2, 1e3, 1e3),
        (8, 2, 1e3, 1e3),
        (1, 8, 1e3, 1e3),
        (2, 2, 4e6, 2e3),
        (2, 2, 1e6, 8e5),
        (16, 16, 1e5, 5e4),
    ]
    points = [Point(size, constants.seconds(size, 2), fitted=True) for size in (Size(*each) for each in sizes)]
    found = fit(points, constants.message, 2)
    assert found.parts(Size(4, 4, 1e6, 1e6), 2) == pytest.approx(constants.parts(Size(4, 4, 1e6, 1e6), 2))


def test_no_constant_is_negative() -> None:
    points = [Point(Size(1, 1, 1e3, 1e3), 0.2), Point(Size(8, 1, 1e3, 1e3), 0.1), Point(Size(1, 8, 1e3, 1e3), 0.4)]
    assert fit(points, 1e-4, 2).task == 0
