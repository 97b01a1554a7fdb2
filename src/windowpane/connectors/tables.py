"""The width of printed tables, for sinks and commands. Does not import Spark."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

UNBOUNDED = 10_000
"""Width in a pipe or a file, where nothing is wrapped."""


def table_console(file: TextIO) -> Console:
    """A console that prints tables as wide as the terminal, and unwrapped in a pipe. Brackets are not markup."""
    return Console(file=file, width=None if file.isatty() else UNBOUNDED, highlight=False, markup=False)
