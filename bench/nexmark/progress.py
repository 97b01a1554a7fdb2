"""What the benchmark is doing now, and for how long it has been running."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console


class Progress:
    """Lines with the time since the start."""

    def __init__(self, console: Console) -> None:
        self._console, self._began = console, time.monotonic()

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        self._console.print(f"{minutes:3}:{seconds:02} {text}", highlight=False, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[list[str]]:
        """Says that something begins, and what has come of it: what the block puts into the list."""
        began, found = time.monotonic(), list[str]()
        self.say(f"{text} …")
        yield found
        self.say(f"{text}: {', '.join(found) or 'done'} ({time.monotonic() - began:.0f} s)")
