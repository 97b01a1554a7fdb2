"""Lines at the bottom of the terminal that change in place, while results are printed above them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from typing import TextIO

from rich.cells import set_cell_size

_CLEAR_DOWN = "\r\x1b[J"


class LiveLines:
    """Shows the latest lines on a terminal; `Above` takes them away while something else is printed."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._shown = 0
        self.lock = threading.RLock()

    def show(self, lines: Sequence[str]) -> None:
        # Room for the `^C` that terminals echo: a line that wraps could not be cleared.
        width = shutil.get_terminal_size().columns - 3
        with self.lock:
            self.clear()
            self._terminal.write("\n".join(set_cell_size(line, width).rstrip() for line in lines))
            self._terminal.flush()
            self._shown = len(lines)

    def clear(self) -> None:
        with self.lock:
            if self._shown:
                up = f"\x1b[{self._shown - 1}A" if self._shown > 1 else ""
                self._terminal.write(up + _CLEAR_DOWN)
                self._terminal.flush()
            self._shown = 0


class Above:
    """A text stream that prints above live lines. Everything else is the stream's own."""

    def __init__(self, stream: TextIO, lines: LiveLines) -> None:
        self._stream, self._lines = stream, lines

    def write(self, text: str) -> int:
        with self._lines.lock:
            self._lines.clear()
            written = self._stream.write(text)
            self._stream.flush()
            return written

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
