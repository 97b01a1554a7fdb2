"""Pairs of rows against the definition: every left row with every right row, sorted."""

from __future__ import annotations

import numpy as np
import pytest

from windowpane.core.groups import Groups
from windowpane.core.pairing import Pairing

INTERVALS = (None, (-3, 3), (0, 5), (-5, 0), (2, 4), (-4, -2), (0, 0))


@pytest.mark.parametrize("far", [0, 1 << 60])
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_in_order_and_rows_without_a_partner_stand_between_them(
    monkeypatch: pytest.MonkeyPatch, interval: tuple[int, int] | None, seed: int, far: int
) -> None:
    """`far`: some rows are so far from the others in time that no number holds both a key and a time."""
    monkeypatch.setattr("windowpane.core.pairing.CHUNK_PAIRS", 7)
    rng = np.random.default_rng(seed)
    count, cells = (0, 1, 30, 60)[seed], (1, 1, 1, 6)[seed]
    ts, ids = rng.integers(-10, 10, count), rng.integers(0, cells, count)
    ts += rng.integers(-1, 2, count) * far
    is_right, comparable = rng.random(count) < 0.5, rng.random(count) < 0.9
    order = np.lexsort((np.arange(count), ts))
    pairing = Pairing(Groups(ids, cells), is_right, comparable, order)
    found = list(pairing.partners(*(() if interval is None else (ts, interval))))
    pairs = [pair for left, right in found for pair in zip(left.tolist(), right.tolist(), strict=True)]
    rank = {row: number for number, row in enumerate(order.tolist())}
    lefts, rights = np.flatnonzero(comparable & ~is_right).tolist(), np.flatnonzero(comparable & is_right).tolist()
    wanted = [(a, b) for a in lefts for b in rights if ids[a] == ids[b]
              and (interval is None or interval[0] <= ts[b] - ts[a] <= interval[1])]  # fmt: skip

    def place(pair: tuple[int, int]) -> tuple[int, int]:
        return max(rank[row] for row in pair), min(rank[row] for row in pair)

    assert pairs == sorted(wanted, key=place)
    alone = [row for row in range(count) if all(row not in pair for pair in wanted)]
    together = np.array([*pairs, (0, 0)], np.int64)[:-1]
    single = np.isin(np.arange(count), alone)
    merged = zip(
        *(each.tolist() for each in pairing.with_single((together[:, 0], together[:, 1]), single)), strict=True
    )
    assert list(merged) == sorted([*wanted, *((row, row) for row in alone)], key=place)
    if interval is None:
        assert np.flatnonzero(~pairing.have_partners()).tolist() == alone
