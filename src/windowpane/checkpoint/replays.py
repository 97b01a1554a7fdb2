"""The replays of a transform: side rows that it reads once more, because their windows are still open.

A replay is one file. It waits until a micro-batch behind `after_batch` takes it: none that another process may have
tried without it. The ledger says which batch that was, and the batch behind that one notes that it is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from windowpane.checkpoint.records import FORMAT, encoded, read_object, typed
from windowpane.checkpoint.store import Store

State: TypeAlias = Literal["waiting", "done"]


@dataclass(frozen=True)
class Replay:
    """Rows of one stream."""

    number: int
    state: State
    made_us: int
    after_batch: int
    stream: str
    kinds: dict[str, int]
    """Rows by the kind that they had."""
    records: list[str]
    """The side records, by their ids."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The original rows, as long as they wait."""
    fence: int = 0


class Replays:
    """Files `<number>.json`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[Replay]:
        """In order of their numbers."""
        stems = (name.removesuffix(".json") for name in self._store.names() if name.endswith(".json"))
        return [self._read(int(stem)) for stem in sorted(stems) if stem.isdigit()]

    def waiting(self) -> list[Replay]:
        return [each for each in self.all() if each.state == "waiting"]

    def kinds(self) -> Counter[str]:
        """Rows of all replays, by the kind that they had."""
        total: Counter[str] = Counter()
        for each in self.all():
            total.update(each.kinds)
        return total

    def put(self, replay: Replay) -> None:
        """Durable when this returns."""
        content = {"format": FORMAT, **asdict(replace(replay, fence=self._store.fence))}
        self._store.replace(_name(replay.number), encoded(content))

    def finish(self, number: int) -> None:
        """A committed batch has taken it."""
        replay = self._read(number)
        if replay.state != "done":
            self.put(replace(replay, state="done", rows=[]))

    def _read(self, number: int) -> Replay:
        name = _name(number)
        content = read_object(self._store, name, {"format": int, "number": int})
        assert content is not None, "it was listed"
        content.pop("format")
        return typed(_REPLAY, content, self._store.address(name))


def _name(number: int) -> str:
    return f"{number:06}.json"


_REPLAY = TypeAdapter(Replay)
