"""State entries in Spark's map state: what is read, what is cached, and older state. No Spark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.pieces import cached, piece
from windowpane.spark import entries as entries_module
from windowpane.spark.entries import ROOT, ROOT_BYTES, SMALL_BYTES, StoredEntries, spool
from windowpane.spark.piece_cache import PieceCache
from windowpane.spark.timings import MERGE, timed


class FakeMapState:
    """The calls of Spark's map state that are made, over a dict, with the values that were read counted."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content, self.read, self.delay = content, list[str](), 0.0

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]:
        self.read += self.content
        return iter([((name,), (blob,)) for name, blob in self.content.items()])

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802
        self.read += key
        time.sleep(self.delay)
        return (self.content[key[0]],) if key[0] in self.content else None

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:  # noqa: N802
        self.content[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:  # noqa: N802
        del self.content[key[0]]


def expanded(content: dict[str, bytes]) -> dict[str, bytes]:
    """What is read of the whole state of a stopped query."""
    with spool() as entries:
        for name, blob in content.items():
            entries.add(name, blob)
        return entries.map().merged()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry is small."""
    monkeypatch.setattr(entries_module, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("apart")
def test_only_what_is_asked_for_is_read() -> None:
    state = FakeMapState({})
    StoredEntries(state).write({"0/": b"header", "1/": b"other", "1/5.0.9": b"large", "1/6.0.9": b"larger"})
    state.read.clear()
    stored = StoredEntries(state)
    assert dict.fromkeys(stored) == dict.fromkeys(["0/", "1/", "1/5.0.9", "1/6.0.9"])
    assert (stored["0/"], stored["1/"], stored.size_of("1/6.0.9")) == (b"header", b"other", 6)
    assert state.read == [ROOT]
    assert (stored["1/6.0.9"], stored["1/6.0.9"]) == (b"larger", b"larger")
    assert state.read == [ROOT, "1/6.0.9"]
    with pytest.raises(KeyError):
        stored["1/7.0.9"]


@pytest.mark.usefixtures("apart")
def test_time_of_reads_during_the_merge_is_that_of_the_state() -> None:
    state, spent = FakeMapState({}), Counter[str]()
    StoredEntries(state).write({"1/5.0.9": b"large"})
    state.delay = 0.02
    before = time.perf_counter_ns()
    with timed(spent, MERGE):
        assert StoredEntries(state, spent)["1/5.0.9"] == b"large"
    took = (time.perf_counter_ns() - before) // 1000
    assert spent["spent.state"] >= 20_000
    assert spent["spent.merge"] + spent["spent.state"] <= took, "nothing is counted twice"


def test_what_is_written_is_what_the_next_micro_batch_and_other_readers_find() -> None:
    state = FakeMapState({})
    large = {"1/5.0.9": b"large", "1/6.0.9": b"larger"}
    StoredEntries(state).write({"0/": b"header", "1/": b"gone soon", "2/": b"stays", piece(b"p"): b"p", **large})
    StoredEntries(state).write({"0/": b"", "1/": None, "1/5.0.9": None, "1/7.0.1": b"new"})
    left = {"0/": b"", "2/": b"stays", "1/6.0.9": b"larger", "1/7.0.1": b"new", piece(b"p"): b"p"}
    assert dict(StoredEntries(state)) == left
    assert expanded(state.content) == dict(StoredEntries(state))
    assert expanded({}) == {}


def test_state_of_an_older_version_is_read_and_rewritten() -> None:
    older = {"0/": b"header", "1/5.0": b"large", "1/6.0": b"larger"}
    state = FakeMapState(dict(older))
    assert expanded(state.content) == older
    stored = StoredEntries(state)
    assert dict(stored) == older
    stored.write({"0/": b"changed", "1/5.0": None})
    assert set(state.content) == {ROOT, "1/6.0"}
    assert dict(StoredEntries(state)) == {"0/": b"changed", "1/6.0": b"larger"}


def test_state_that_was_rolled_back_is_read_as_it_is(tmp_path: Path) -> None:
    cache, rows = PieceCache(tmp_path / "pieces", 1000), b"rows"
    StoredEntries(FakeMapState({}), cache=cache).write({piece(b"of a batch that failed"): b"of a batch that failed"})
    other = FakeMapState({})
    assert dict(StoredEntries(other, cache=cache)) == {}
    StoredEntries(other, cache=cache).write({"1/": b"small", piece(rows): rows})
    assert dict(StoredEntries(other, cache=cache)) == {"1/": b"small", piece(rows): rows}


@pytest.mark.usefixtures("apart")
def test_pieces_are_cached_as_they_are_written_read_and_removed(tmp_path: Path) -> None:
    state, one, two = FakeMapState({}), b"one", b"two"
    StoredEntries(state, cache=PieceCache(tmp_path / "1", 1000)).write({piece(one): one, piece(two): two, "1/5": b"5"})
    for folder, expected in (("1", [ROOT, "1/5"]), ("2", [ROOT, piece(one), "1/5"]), ("2", [ROOT, "1/5"])):
        state.read.clear()
        stored = StoredEntries(state, cache=PieceCache(tmp_path / folder, 1000))
        assert (stored[piece(one)], stored["1/5"], stored[piece(one)]) == (one, b"5", one)
        assert state.read == expected
    StoredEntries(state, cache=PieceCache(tmp_path / "1", 1000)).write({piece(one): None})
    assert cached(tmp_path / "1") == [piece(two)[-32:]]
    with pytest.raises(KeyError):
        StoredEntries(state, cache=PieceCache(tmp_path / "2", 1000))[piece(one)]


@pytest.mark.usefixtures("apart")
def test_without_a_cache_pieces_are_read_from_the_state_and_not_kept() -> None:
    state, rows = FakeMapState({}), b"rows"
    StoredEntries(state).write({piece(rows): rows})
    stored = StoredEntries(state)
    assert (stored[piece(rows)], stored[piece(rows)]) == (rows, rows)
    assert state.read == [ROOT, ROOT, piece(rows), piece(rows)]


def test_small_entries_are_read_and_written_with_the_first_one() -> None:
    state, small, rows = FakeMapState({}), b"s" * SMALL_BYTES, b"r" * (SMALL_BYTES + 1)
    StoredEntries(state).write({"0/": b"header", "1/5": b"few", piece(small): small, piece(rows): rows})
    assert set(state.content) == {ROOT, piece(rows)}
    state.read.clear()
    stored = StoredEntries(state)
    assert (stored["1/5"], stored[piece(small)]) == (b"few", small)
    assert state.read == [ROOT]
    stored.write({"1/5": rows, piece(small): None, piece(rows): None})
    assert set(state.content) == {ROOT, "1/5"}
    StoredEntries(state).write({"1/5": b"few again"})
    assert dict(StoredEntries(state)) == expanded(state.content) == {"0/": b"header", "1/5": b"few again"}


def test_the_first_entry_stays_small() -> None:
    """However many small entries there are. Each stays where it is until it is removed."""
    state, small = FakeMapState({}), b"s" * SMALL_BYTES
    names = [f"1/{number}" for number in range(3 * ROOT_BYTES // SMALL_BYTES)]
    for name in names:
        StoredEntries(state).write({"0/": b"header", name: small})
        assert len(state.content[ROOT]) < ROOT_BYTES + 2 * SMALL_BYTES
    assert len(state.content) > len(names) // 2
    assert dict(StoredEntries(state)) == expanded(state.content) == {"0/": b"header", **dict.fromkeys(names, small)}
    for name in names:
        StoredEntries(state).write({name: None})
    assert set(state.content) == {ROOT}
    assert dict(StoredEntries(state)) == {"0/": b"header"}
