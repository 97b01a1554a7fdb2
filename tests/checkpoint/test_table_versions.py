"""Versions of static tables: a batch reads the version it has read before, and two versions are kept."""

from __future__ import annotations

import pytest

from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint.table_versions import TableVersion, TableVersions
from windowpane.errors import StateError


def version(number: int, from_batch: int) -> TableVersion:
    return TableVersion(number, from_batch, taken_us=number * 1_000_000, schema="{}")


def test_each_batch_has_the_version_that_was_taken_for_it() -> None:
    store = MemoryStore()
    versions = TableVersions(store)
    assert versions.at("names", 5) is None
    versions.add("names", version(1, 5))
    assert versions.at("names", 4) is None
    store.replace("names-000001/part.parquet", b"")
    versions.add("names", version(2, 9))
    assert [versions.at("names", batch) for batch in (5, 8)] == [version(1, 5)] * 2
    assert [versions.at("names", batch) for batch in (9, 100)] == [version(2, 9)] * 2
    versions.add("names", version(3, 12))
    assert versions.of("names") == [version(2, 9), version(3, 12)]
    assert not store.exists("names-000001/part.parquet")
    assert TableVersions(store).of("other") == []


def test_a_damaged_record_is_named() -> None:
    store = MemoryStore()
    store.replace("names.json", b'{"versions": [{"version": "x"}]}')
    with pytest.raises(StateError):
        TableVersions(store).of("names")
