"""Rows by time and arrival, against numpy's sort by two keys."""

from __future__ import annotations

import numpy as np
import pytest

from windowpane.core.rows import time_order


@pytest.mark.parametrize("arrivals", [1, 5, 100])
@pytest.mark.parametrize("far", [0, 1 << 61])
def test_rows_are_ordered_by_time_then_arrival_then_position(arrivals: int, far: int) -> None:
    """Joined rows share arrival numbers. Times may be so far apart that no number holds both."""
    rng = np.random.default_rng(arrivals)
    ts = rng.integers(-10, 10, 60) + rng.integers(-1, 2, 60) * far
    arrival = rng.permutation(100)[:60] if arrivals == 100 else rng.integers(0, arrivals, 60)
    assert time_order(ts, arrival).tolist() == np.lexsort((arrival, ts)).tolist()
    assert not len(time_order(ts[:0], arrival[:0]))
