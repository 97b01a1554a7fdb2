"""Results and side records read back from the sinks that took them, to compare a stream with a batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

ORDER = "_order"
"""A column of what is read back: of several emissions of a window and group, the last one has the highest value."""


@dataclass(frozen=True)
class Written:
    """Whose rows are read back: those of a transform, of one checkpoint."""

    transform: str
    run: str

    def prefix(self, *, side: bool = False) -> str:
        """How the names of its files begin."""
        return f"part-{self.transform}{'.side' if side else ''}-{self.run}-"


@dataclass(frozen=True)
class ReadBack:
    """Results of a batch and of the stream, with equal columns in equal form. `emitted` may also have ORDER."""

    expected: pa.Table
    emitted: pa.Table
