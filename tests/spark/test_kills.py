"""Killed with SIGKILL at random points and started again: the files are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.torture import compare, torture
from bench.torture_evolve import VERSIONS, Torture
from bench.torture_state import merging_batches, torture_state

pytestmark = pytest.mark.spark


def test_six_kills_of_the_driver_with_side_outputs(tmp_path: Path) -> None:
    """`make torture` kills more often."""
    verdict = torture(tmp_path, kills=6, seed=11, files=6)
    assert len(verdict.killed) == 6
    assert not verdict.differences


def test_a_kill_while_a_query_hands_over(tmp_path: Path) -> None:
    """`make torture-evolve` changes the query five times."""
    changing = Torture(tmp_path, seed=5, files=0, versions=[VERSIONS[0], VERSIONS[2]])
    changing.feed(4)
    changing.kill_when(0, lambda: changing.last_batch() >= 0)
    changing.feed(4)
    changing.kill_when(1, lambda: changing.count_open() == 2)
    assert changing.count_open() == 2, "old and new query ran side by side when it was killed"
    changing.feed(6)
    assert not changing.finish()


def test_a_difference_would_be_seen() -> None:
    from collections import Counter  # noqa: PLC0415

    one, two = Counter({"a": 1, "b": 1}), Counter({"a": 2})
    assert compare({"x": one}, {"x": two}) == ["x: lost b", "x: doubled or wrong a"]
    assert compare({}, {"x": one}) == ["x: doubled or wrong a", "x: doubled or wrong b"]


@pytest.mark.long
def test_kills_while_state_is_merged_and_a_large_window_closes_with_a_damaged_cache(tmp_path: Path) -> None:
    groups = 1_000_000
    merging = merging_batches(groups)
    kills, damaged, wrong = torture_state(tmp_path, groups, seed=7)
    assert len(merging) == 3
    assert kills == len(merging) + 3
    assert damaged
    assert not wrong
