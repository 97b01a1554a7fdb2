"""Makes the next item of an iterator while the caller works on the one before."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items. A thread makes the next one, so this is worth it for items that wait, or that release the lock.

    An iterator that is closed early waits for the item that is being made.
    """
    with ThreadPoolExecutor(1, "windowpane-ahead") as thread:
        following = thread.submit(next, items, _END)
        while (item := following.result()) is not _END:
            following = thread.submit(next, items, _END)
            yield item  # type: ignore[misc]  # mypy does not tell _END from T
