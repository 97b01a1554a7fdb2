"""The repairs of a transform: which side rows were folded into closed windows, and what came out.

A repair is two Arrow files, the corrected accumulators and the corrected results, and a record. The record is written
after both, and makes the repair valid: from then on it is delivered, again and again under the same number, until every
sink has it and the record says so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa
from pydantic import TypeAdapter

from windowpane.checkpoint.closed_windows import packed, unpacked
from windowpane.checkpoint.records import FORMAT, encoded, read_object, typed
from windowpane.checkpoint.store import Store, corrupt

State: TypeAlias = Literal["begun", "done"]


@dataclass(frozen=True)
class RepairRecord:
    """One repair."""

    number: int
    state: State
    made_us: int
    repaired: dict[str, int]
    """Rows by the kind that they had."""
    records: list[str]
    """The side records, by their ids."""
    results: int
    """Corrected results: an upper bound, as HAVING may leave less."""
    windows: int
    fence: int = 0


class Repairs:
    """Files `<number>.json`, `<number>.states.arrow`, `<number>.results.arrow`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[RepairRecord]:
        """In order of their numbers."""
        stems = (name.removesuffix(".json") for name in self._store.names() if name.endswith(".json"))
        return [self._read(int(stem)) for stem in sorted(stems) if stem.isdigit()]

    def repaired(self) -> Counter[str]:
        """Rows of all repairs, by the kind that they had."""
        total: Counter[str] = Counter()
        for record in self.all():
            total.update(record.repaired)
        return total

    def begin(self, record: RepairRecord, states: pa.Table, results: pa.Table) -> None:
        """Make a repair valid. Durable when this returns."""
        self._store.replace(self._name(record.number, "states.arrow"), packed(states))
        self._store.replace(self._name(record.number, "results.arrow"), packed(results))
        self._write(record)

    def finish(self, record: RepairRecord) -> RepairRecord:
        """Every sink has it."""
        done = replace(record, state="done")
        self._write(done)
        return done

    def states(self, number: int) -> pa.Table:
        """The corrected accumulators."""
        return self._arrow(self._name(number, "states.arrow"))

    def results(self, number: int) -> pa.Table:
        """The corrected results, as the operators emit them."""
        return self._arrow(self._name(number, "results.arrow"))

    def _arrow(self, name: str) -> pa.Table:
        data = self._store.read(name)
        if data is None:
            raise corrupt(self._store.address(name), "it is missing, although there is a record of the repair")
        return unpacked(data, self._store.address(name))

    def _write(self, record: RepairRecord) -> None:
        content = {"format": FORMAT, **asdict(replace(record, fence=self._store.fence))}
        self._store.replace(self._name(record.number, "json"), encoded(content))

    def _read(self, number: int) -> RepairRecord:
        name = self._name(number, "json")
        content = read_object(self._store, name, {"format": int, "number": int})
        assert content is not None, "it was listed"
        content.pop("format")
        return typed(_RECORD, content, self._store.address(name))

    def _name(self, number: int, ending: str) -> str:
        return f"{number:06}.{ending}"


_RECORD = TypeAdapter(RepairRecord)
