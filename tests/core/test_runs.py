"""Runs of a pane against a dictionary: whatever is appended, merged, reloaded, looked up and read by ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.search import scaled
from windowpane.core import panes as panes_module
from windowpane.core import runs as runs_module
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.hashing import hash_rows
from windowpane.core.panes import Panes
from windowpane.core.rows import joined
from windowpane.core.run_content import Bools, Content, Int64s
from windowpane.core.state import EntryMap

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("_ts", pa.int64()), ("_arrival", pa.int64())])
SUMS = Aggregator([Call("a", "sum", ("n",))], ["key"], SCHEMA)
CONTENT = Content(SUMS.merge, ("key",))


@pytest.fixture(autouse=True)
def _small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "SMALL_ROWS", 4)
    monkeypatch.setattr(runs_module, "PIECE_ROWS", 32)
    monkeypatch.setattr(panes_module, "PIECE_ROWS", 32)


class Counting(EntryMap):
    """Notes which entries are read."""

    def __init__(self, stored: dict[str, bytes]) -> None:
        super().__init__(stored)
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        self.reads.append(name)
        return super().read(name)


def delta(keys: Sequence[int]) -> pa.RecordBatch:
    ones = pa.array([1] * len(keys), pa.int64())
    rows = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), ones, ones, ones], schema=SCHEMA)
    return SUMS.fold(rows, {})


def totals(states: Sequence[pa.RecordBatch | None]) -> dict[int, int]:
    found: dict[int, int] = {}
    for batch in states:
        if batch is not None:
            values = SUMS.evaluate(batch)[0]["a"].to_pylist()
            for key, value in zip(batch.column("key").to_pylist(), values, strict=True):
                assert key not in found, "a group comes once"
                found[key] = value
    return found


def taken_up(stored: dict[str, bytes]) -> tuple[Panes, Counting]:
    entries = Counting(stored)
    kept = Panes(CONTENT)
    kept.load(entries)
    return kept, entries


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_runs_are_what_was_appended(seed: int) -> None:
    random = np.random.default_rng(seed)
    stored: dict[str, bytes] = {}
    expected: Counter[int] = Counter()
    groups = int(random.choice([1, 5, 60, 1000]))
    for _ in range(int(random.integers(1, 60))):
        kept, entries = taken_up(stored)
        for _ in range(int(random.integers(0, 3))):
            keys = random.integers(0, groups, int(random.integers(1, 40))).tolist()
            expected.update(keys)
            kept.append(0, delta(keys))
        if expected and random.random() < 0.3:
            wanted = random.integers(0, groups, 5)
            hashes = np.unique(hash_rows([pa.array(wanted)], len(wanted)))
            found = totals([kept.lookup(0, hashes)])
            assert {key: found.get(key, 0) for key in wanted.tolist()} == {
                key: expected[key] for key in wanted.tolist()
            }
        if expected and random.random() < 0.2:
            assert totals([kept.state(0)]) == expected
        kept.save(entries)
        stored = entries.merged()
    kept, _ = taken_up(stored)
    if expected:
        assert totals([kept.between(0, *bounds) for bounds in kept.ranges([0])]) == expected
        assert kept.rows([0]) >= len(expected)
        kept.drop(0)
    left = EntryMap(stored)
    kept.save(left)
    assert not left.merged()


def test_a_micro_batch_merges_a_bounded_number_of_rows() -> None:
    """Though the pane has many runs, which are merged again and again."""
    stored: dict[str, bytes] = {}
    merged, written, most = [0], 0, 0

    def counted(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        merged[0] += sum(batch.num_rows for batch in batches)
        return SUMS.merge(batches)

    batches, rows = 400, 3
    for number in range(batches):
        entries, kept, merged[0] = EntryMap(stored), Panes(Content(counted, ("key",))), 0
        kept.load(entries)
        kept.append(0, delta(range(number * rows, (number + 1) * rows)))
        kept.save(entries)
        written += sum(rows_of(name) for name, data in entries.changes.items() if data is not None)
        most, stored = max(most, merged[0]), entries.merged()
    total = batches * rows
    assert most <= 3 * 32, "a few ranges of hashes"
    assert written <= 5 * total, "each row once per level"
    assert len(stored) <= total / 32 * 2 + 8 * 3
    assert totals([taken_up(stored)[0].state(0)]) == dict.fromkeys(range(total), 1)


def rows_of(name: str) -> int:
    return int(name.partition("#")[0].split(".")[-1])


def test_a_lookup_reads_only_pieces_that_may_have_the_group() -> None:
    kept, entries = taken_up({})
    kept.append(0, delta(range(2000)))
    kept.save(entries)
    kept, entries = taken_up(entries.merged())
    hashes = hash_rows([pa.array([7])], 1)
    assert totals([kept.lookup(0, hashes)]) == {7: 1}
    assert len(entries.reads) == 1


def test_rows_that_are_no_longer_needed_are_neither_read_nor_merged() -> None:
    limit = 100

    def needed(keys: Int64s) -> Bools:
        return keys >= limit

    content = Content(joined, ("key",), "key", needed)
    kept, entries = Panes(content), EntryMap({})
    kept.load(entries)
    for begin in range(0, 200, 10):
        kept.append(0, delta(range(begin, begin + 10)))
    kept.save(entries)
    whole = kept.state(0)
    assert whole is not None
    assert sorted(whole.column("key").to_pylist()) == list(range(100, 200))


def test_equal_hashes_stay_in_one_piece() -> None:
    """Without keys all rows have one hash."""
    content = Content(joined, ())
    kept, entries = Panes(content), EntryMap({})
    kept.load(entries)
    for _ in range(50):
        kept.append(0, delta(range(20)))
    kept.save(entries)
    whole = kept.state(0)
    assert whole is not None
    assert whole.num_rows == 1000
    found = kept.lookup(0, np.zeros(1, np.uint64))
    assert found is not None
    assert found.num_rows == 1000
