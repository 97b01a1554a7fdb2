"""Named entries that users can add to."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from windowpane.errors import ConfigError

Target: TypeAlias = str | object
"""Code: the object itself, or `module:attribute`, imported when it is needed."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=_Named)


class Registry(Generic[Entry]):
    """Entries by name, in the order of registration. Names match in any case, as Spark's format names do."""

    def __init__(self, what: str, entries: Iterable[Entry]) -> None:
        self._what = what
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.register(entry)

    def register(self, entry: Entry) -> None:
        """Add an entry. ConfigError if the name is taken."""
        if entry.name.lower() in self._entries:
            message = f"there is already a {self._what} `{entry.name}`"
            raise ConfigError("DUPLICATE_NAME", message, "choose another name")
        self._entries[entry.name.lower()] = entry

    def unregister(self, name: str) -> None:
        """Remove an entry that `register` has added."""
        del self._entries[name.lower()]

    def find(self, name: str | None) -> Entry | None:
        return self._entries.get(name.lower()) if name is not None else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self._entries.values())


def load(target: Target) -> Any:
    """The code that a target names."""
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(import_module(module))
