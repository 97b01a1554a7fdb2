"""Quotas: the first groups of a window are admitted, and a micro-batch reads and writes what it touches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.quota import GroupQuota
from windowpane.core.state import EntryMap, Header, Times


def pairs(windows: list[int] | np.ndarray, keys: list[int] | np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({c.WINDOW_KEY: pa.array(windows, pa.int64()), "_k0": pa.array(keys, pa.int64())})


def restored(quota: GroupQuota, entries: EntryMap) -> GroupQuota:
    """What a later micro-batch has."""
    quota.save(entries.of_operator("0"))
    fresh = GroupQuota(quota.max_groups, ["_k0"])
    fresh.load(EntryMap(entries.merged()).of_operator("0"), quota.tables())
    return fresh


def test_first_come_first_served_over_restarts() -> None:
    random, entries = np.random.default_rng(5), EntryMap({})
    quota, wanted = GroupQuota(6, ["_k0"]), dict[int, set[int]]()
    for _ in range(20):
        windows, keys = random.integers(-1, 2, 15), random.integers(0, 12, 15)
        expected = []
        for window, key in zip(windows.tolist(), keys.tolist(), strict=True):
            groups = wanted.setdefault(window, set())
            if len(groups) < 6:
                groups.add(key)
            expected.append(key in groups)
        assert quota.admit(pairs(windows, keys)).tolist() == expected
        quota = restored(quota, entries)
        entries = EntryMap(entries.merged())
    quota.forget(np.array([0]))
    assert quota.windows().tolist() == [-1, 1]
    assert quota.admit(pairs([0, 1], [99, 99])).tolist() == [True, False]


def test_what_every_micro_batch_writes_does_not_grow_with_the_groups() -> None:
    entries, quota = EntryMap({}), GroupQuota(10**6, ["_k0"])
    for start in range(0, 60_000, 20_000):
        assert quota.admit(pairs(np.zeros(20_000, int), np.arange(start, start + 20_000))).all()
    quota = restored(quota, entries)
    assert len(Header(tables=quota.tables()).pack(Times(0, None))) < 2000
    later = EntryMap(entries.merged())
    quota.admit(pairs([0, 0], [5, 10**9]))
    quota.save(later.of_operator("0"))
    written = [len(data) for data in later.changes.values() if data is not None]
    assert sum(written) < 2000
