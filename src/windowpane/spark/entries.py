"""State entries in Spark's map state. A worker caches entries that never change, and reads them once.

The names of such entries contain a digest of their content. A cached entry is therefore valid whatever was replayed,
moved to another worker or rolled back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from windowpane.core.segments import DIGEST

REMEMBERED_BYTES = 256 * 1024 * 1024
FETCHED_ONE_BY_ONE = 8
"""Each such read is a round trip. If more entries are needed, all are read in one iteration."""

_remembered: OrderedDict[str, bytes] = OrderedDict()


def read_entries(state: Any) -> dict[str, bytes]:
    """All entries of a shard's map state."""
    names = [name for (name,) in state.keys()] if _remembered else []  # noqa: SIM118  # no dict: a map state of Spark
    known = {name: _remembered[name] for name in names if name in _remembered}
    if not known or len(names) - len(known) > FETCHED_ONE_BY_ONE:
        read = {entry[0]: bytes(blob[0]) for entry, blob in state.iterator()}
    else:
        read = {name: known[name] if name in known else bytes(state.getValue((name,))[0]) for name in names}
    _remember(read)
    return read


def write_entries(state: Any, changes: Mapping[str, bytes | None]) -> None:
    """Write changed entries; None removes one."""
    for name, blob in changes.items():
        if blob is None:
            state.removeKey((name,))
            _remembered.pop(name, None)
        else:
            state.updateValue((name,), (blob,))
    _remember({name: blob for name, blob in changes.items() if blob is not None})


def _remember(entries: Mapping[str, bytes]) -> None:
    for name, blob in entries.items():
        if DIGEST in name:
            _remembered[name] = blob
            _remembered.move_to_end(name)
    while sum(map(len, _remembered.values())) > REMEMBERED_BYTES:
        _remembered.popitem(last=False)
