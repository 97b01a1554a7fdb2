"""How wide tables are, for sinks and commands alike. Free of Spark."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

UNBOUNDED = 10_000
"""Columns of a pipe or a file, which need no wrapping: a table takes no more than it needs."""


def table_console(file: TextIO) -> Console:
    """Prints tables as wide as the terminal allows, and whole in a pipe. Brackets in values are not markup."""
    return Console(file=file, width=None if file.isatty() else UNBOUNDED, highlight=False, markup=False)
