"""`FencedStore`: a store for the holder of its lease alone. Every change checks the lease first."""

from __future__ import annotations

from typing import Self

from windowpane.checkpoint.store import Lease, Store


class FencedStore:
    """Reads as `store` does. Changes raise StateError `LEASE_LOST` once another process holds the lease."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease = store, lease

    @property
    def fence(self) -> int:
        return self._lease.fence

    def address(self, name: str = "") -> str:
        return self._store.address(name)

    def spark_path(self, name: str = "") -> str:
        return self._store.spark_path(name)

    def below(self, name: str) -> Self:
        return type(self)(self._store.below(name), self._lease)

    def create(self, name: str, data: bytes) -> bool:
        return self._mine.create(name, data)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._mine.replace(name, data, durable=durable)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        return self._mine.exchange(name, data, known)

    def read(self, name: str) -> bytes | None:
        return self._store.read(name)

    def exists(self, name: str) -> bool:
        return self._store.exists(name)

    def names(self) -> list[str]:
        return self._store.names()

    def move(self, name: str, to: str) -> None:
        self._mine.move(name, to)

    def copy(self, name: str, to: str) -> None:
        self._mine.copy(name, to)

    def adopt(self, source: Store, name: str, to: str) -> bool:
        return self._mine.adopt(source._store if isinstance(source, FencedStore) else source, name, to)  # noqa: SLF001

    def sizes(self, name: str) -> dict[str, int]:
        return self._store.sizes(name)

    def delete(self, name: str, *, durable: bool = True) -> None:
        self._mine.delete(name, durable=durable)

    def clear(self, name: str) -> None:
        self._mine.clear(name)

    def make_folder(self, name: str) -> None:
        self._mine.make_folder(name)

    def sync(self, name: str) -> None:
        self._mine.sync(name)

    def sweep(self) -> None:
        self._mine.sweep()

    def lease(self, name: str) -> Lease:
        return self._store.lease(name)

    @property
    def _mine(self) -> Store:
        """The store, if it is this process that may change it."""
        self._lease.check()
        return self._store
