"""What a worker remembers of the state: it is never other than what the state has. No Spark is started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windowpane.spark import entries
from windowpane.spark.entries import read_entries, write_entries


class FakeMapState:
    """The calls of Spark's map state that are made, over a dict, with the values that were read counted."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content, self.values_read = content, 0

    def keys(self) -> Iterator[tuple[str]]:
        return iter([(name,) for name in self.content])

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]:
        self.values_read += len(self.content)
        return iter([((name,), (blob,)) for name, blob in self.content.items()])

    def getValue(self, key: tuple[str]) -> tuple[bytes]:  # noqa: N802
        self.values_read += 1
        return (self.content[key[0]],)

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:  # noqa: N802
        self.content[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:  # noqa: N802
        del self.content[key[0]]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    entries._remembered.clear()
    yield
    entries._remembered.clear()


def test_what_never_changes_is_read_once() -> None:
    state = FakeMapState({"1/": b"small", "1/0#aa": b"rows"})
    assert read_entries(state) == state.content
    write_entries(state, {"1/": b"other", "1/1#bb": b"more rows"})
    state.values_read = 0
    assert read_entries(state) == {"1/": b"other", "1/0#aa": b"rows", "1/1#bb": b"more rows"}
    assert state.values_read == 1


def test_state_that_was_rolled_back_or_is_of_another_worker_is_read_as_it_is() -> None:
    write_entries(FakeMapState({}), {"1/0#aa": b"of a batch that was not committed"})
    other = FakeMapState({"1/": b"small", "1/0#cc": b"rows"})
    assert read_entries(other) == other.content
    assert read_entries(FakeMapState({})) == {}


def test_removed_entries_are_forgotten_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "REMEMBERED_BYTES", 10)
    state = FakeMapState({})
    write_entries(state, {"0#a": b"123456", "1#b": b"123456", "2#c": b"12"})
    assert list(entries._remembered) == ["1#b", "2#c"]
    write_entries(state, {"1#b": None})
    assert list(entries._remembered) == ["2#c"]
    assert read_entries(state) == {"0#a": b"123456", "2#c": b"12"}
