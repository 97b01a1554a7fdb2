"""Killed with SIGKILL at random points and started again: the files are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.torture import compare, torture
from bench.torture_state import torture_state

pytestmark = pytest.mark.spark


def test_ten_kills_of_the_driver_with_side_outputs(tmp_path: Path) -> None:
    verdict = torture(tmp_path, kills=10, seed=11, files=6)
    assert len(verdict.killed) == 10
    assert not verdict.differences


def test_a_difference_would_be_seen() -> None:
    from collections import Counter  # noqa: PLC0415

    one, two = Counter({"a": 1, "b": 1}), Counter({"a": 2})
    assert compare({"x": one}, {"x": two}) == ["x: lost b", "x: doubled or wrong a"]
    assert compare({}, {"x": one}) == ["x: doubled or wrong a", "x: doubled or wrong b"]


def test_kills_while_a_large_window_closes_and_the_cache_of_state_is_damaged(tmp_path: Path) -> None:
    kills, damaged, wrong = torture_state(tmp_path, groups=1_000_000, seed=7)
    assert kills == 3
    assert damaged
    assert not wrong
