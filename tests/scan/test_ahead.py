"""Items that are made ahead by a thread: the same ones, in order, with errors where they occur."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from windowpane.scan.ahead import ahead


def test_the_same_items_one_ahead() -> None:
    made: list[int] = []
    third = threading.Event()

    def items() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    found = ahead(items())
    assert next(found) == 0
    assert next(found) == 1
    assert third.wait(10)
    assert made == [0, 1, 2]
    assert list(found) == [2, 3, 4]
    assert list(ahead(iter(()))) == []


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)


def test_closing_early_ends_the_thread() -> None:
    found = ahead(iter(range(1_000)))
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]  # generators have it
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("windowpane-ahead")]
