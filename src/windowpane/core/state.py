"""State between micro-batches. Operators keep named entries in their host, and write only those that changed.

The host decides where entries live: in Spark's map state, or in a dict for the harness and for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from windowpane.core import blob
from windowpane.core import columns as c
from windowpane.core.blob import Blob
from windowpane.core.metadata import Kind, Record, decode_record, encode_record

HEADER = ""
"""The name of the entry that every operator has."""
_OLD_EMIT = "_close"


class StateEntries(Protocol):
    """The entries of one operator."""

    def names(self) -> Collection[str]:
        """The names of all entries. Reads none of them."""

    def read(self, name: str) -> Blob:
        """The content of an entry. Operators may read entries at any time during the micro-batch.

        It may be mapped from a file, and the host does not keep it: who needs it twice reads it twice or holds it.
        """

    def write(self, name: str, data: bytes) -> None:
        """Create or replace an entry."""

    def remove(self, name: str) -> None:
        """Remove an entry, if it exists."""


class EntryMap:
    """Entries over those that a host has stored. Changes are kept apart until the host takes them."""

    def __init__(self, stored: Mapping[str, Blob], size_of: Callable[[str], int] | None = None) -> None:
        """`size_of`: the bytes of a stored entry, for hosts that know them without reading it."""
        self._stored = stored
        self._size_of = size_of or (lambda name: len(stored[name]))
        self.changes: dict[str, bytes | None] = {}
        """New contents by name, None for stored entries that are removed."""

    def names(self) -> Collection[str]:
        kept = [name for name in self._stored if name not in self.changes]
        return kept + [name for name, data in self.changes.items() if data is not None]

    def read(self, name: str) -> Blob:
        data = self.changes[name] if name in self.changes else self._stored[name]
        if data is None:
            raise KeyError(name)
        return data

    def write(self, name: str, data: bytes) -> None:
        self.changes[name] = data

    def remove(self, name: str) -> None:
        self.changes.pop(name, None)
        if name in self._stored:
            self.changes[name] = None

    def of_operator(self, key: str | int) -> StateEntries:
        """The entries of one operator, by a key that no other operator of the state has."""
        return _Part(self, f"{key}/")

    def below(self, prefix: str) -> EntryMap:
        """Entries whose names begin with a prefix, which those who use them do not see."""
        return _EntriesBelow(self, prefix)

    def unmarked(self, mark: str) -> EntryMap:
        """Entries of operators in whose keys the mark does not occur."""
        return _EntriesBelow(self, "", lambda name: mark not in name.partition("/")[0])

    def merged(self) -> dict[str, bytes]:
        """The stored entries with the changes applied."""
        return {name: bytes(self.read(name)) for name in self.names()}

    def size(self) -> int:
        """Bytes of all entries. Reads none of them, if the host knows their sizes."""
        return sum(map(self.size_of, self.names()))

    def size_of(self, name: str) -> int:
        """Bytes of an entry."""
        changed = self.changes.get(name)
        return self._size_of(name) if changed is None else len(changed)


class _EntriesBelow(EntryMap):
    """Reads and changes the entries of another map. Nobody else changes those with its prefix meanwhile."""

    def __init__(self, whole: EntryMap, prefix: str, own: Callable[[str], bool] = lambda _: True) -> None:
        super().__init__({})
        self._whole, self._prefix = whole, prefix
        found = (name for name in whole.names() if name.startswith(prefix) and own(name))
        self._names = dict.fromkeys(name.removeprefix(prefix) for name in found)

    def names(self) -> Collection[str]:
        return list(self._names)

    def read(self, name: str) -> Blob:
        return self._whole.read(self._prefix + name)

    def write(self, name: str, data: bytes) -> None:
        self._names[name] = None
        self._whole.write(self._prefix + name, data)

    def remove(self, name: str) -> None:
        self._names.pop(name, None)
        self._whole.remove(self._prefix + name)

    def size_of(self, name: str) -> int:
        return self._whole.size_of(self._prefix + name)


@dataclass(frozen=True)
class _Part:
    """Entries whose names begin with a prefix, which operators do not see."""

    whole: EntryMap
    prefix: str

    def names(self) -> Collection[str]:
        return [name.removeprefix(self.prefix) for name in self.whole.names() if name.startswith(self.prefix)]

    def read(self, name: str) -> Blob:
        return self.whole.read(self.prefix + name)

    def write(self, name: str, data: bytes) -> None:
        self.whole.write(self.prefix + name, data)

    def remove(self, name: str) -> None:
        self.whole.remove(self.prefix + name)


@dataclass(frozen=True)
class Times:
    """What every operator remembers of time."""

    clock_us: int
    watermark_us: int | None


@dataclass(frozen=True)
class Header:
    """The small part of an operator's state, written in every micro-batch: scalars by name, and tables."""

    scalars: Mapping[str, object] = field(default_factory=dict)
    tables: Mapping[str, pa.RecordBatch] = field(default_factory=dict)

    @classmethod
    def of(cls, scalars: Record, tables: Mapping[str, pa.RecordBatch] | None = None) -> Header:
        return cls(encode_record(scalars), tables or {})

    def read(self, kind: type[Kind]) -> Kind:
        """The scalars that `of` was given; StateError if the stored ones have other types."""
        return decode_record(kind, self.scalars)

    def pack(self, times: Times) -> bytes:
        return blob.pack(blob.State(encode_record(times) | {"own": dict(self.scalars)}, self.tables))

    @classmethod
    def unpack(cls, data: Blob) -> tuple[Times, Header]:
        """What `pack` was given. In older state, some operators have their scalars beside the times."""
        stored = blob.unpack(data)
        own = stored.meta.get("own", stored.meta)
        tables = {name: _with_current_names(table) for name, table in stored.batches.items()}
        return decode_record(Times, stored.meta), cls(own if isinstance(own, dict) else {}, tables)


def _with_current_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """In older state, the EMIT condition of a state window is called `_close`, and may be stored as `_emit` too."""
    names = rows.schema.names
    if _OLD_EMIT not in names:
        return rows
    if c.EMIT in names:
        return rows.drop_columns([_OLD_EMIT])
    return rows.rename_columns([c.EMIT if name == _OLD_EMIT else name for name in names])
