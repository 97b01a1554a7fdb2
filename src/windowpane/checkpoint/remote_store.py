"""`RemoteStore`: what checkpoints that are reached by the network have in common."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

from windowpane.checkpoint.lease import SECONDS, StoreLease
from windowpane.checkpoint.store import Store, unreadable, unwritable

AccessT = TypeVar("AccessT")


class RemoteStore(Store, ABC, Generic[AccessT]):
    """A store below the address `root`, which Spark reaches by the same address."""

    fence = 0

    def __init__(self, root: str, access: AccessT, lease_seconds: float = SECONDS) -> None:
        self._root, self._access, self._lease_seconds = root.rstrip("/"), access, lease_seconds

    def address(self, name: str = "") -> str:
        return f"{self._root}/{name}" if name else self._root

    def spark_path(self, name: str = "") -> str:
        return self.address(name)

    def below(self, name: str) -> Self:
        return type(self)(self.address(name), self._access, self._lease_seconds)

    def lease(self, name: str) -> StoreLease:
        return StoreLease(self, f"{name}.lease", self._lease_seconds)

    @property
    @abstractmethod
    def _failures(self) -> tuple[type[Exception], ...]:
        """What the client raises if the place refuses or does not answer."""

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._failures as failed:
            raise unwritable(self.address(name), _reason(failed)) from failed

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._failures as failed:
            raise unreadable(self.address(name), _reason(failed)) from failed


def _reason(failed: Exception) -> str:
    """The first line of a client's message: debug output may follow it."""
    return str(failed).partition("\n")[0].strip()
