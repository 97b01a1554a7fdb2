"""Another number of shards: which rows of the state belong to a shard, whichever shards have had them so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.hashing import shard_of
from windowpane.core.rows import concat, select
from windowpane.core.state import StateEntries
from windowpane.errors import StateError


@dataclass
class Tally:
    """How many rows a shard has been shown, and how many of them it has taken over."""

    seen: int = 0
    taken: int = 0


@dataclass(frozen=True)
class Owned:
    """The part of the state that one of the new shards takes over."""

    shard: int
    shards: int
    by: tuple[str, ...] = ()
    """Columns whose values determine the shard, as in `Route`."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names of columns, each with the column that it is another name of: operators keep some under one name only."""
    tally: Tally = field(default_factory=Tally)

    def rows(self, batch: pa.RecordBatch, pane: int | None = None) -> pa.RecordBatch:
        """The rows of this shard. `pane`: what they lie in, for state that is divided by window."""
        if pane is not None and self.by == (c.WINDOW_KEY,):
            columns = [pa.array(np.full(batch.num_rows, pane, np.int64))]
        else:
            columns = [self._column(batch, name) for name in self.by]
        owner = shard_of(columns, batch.num_rows, self.shards)
        mine = select(batch, owner == self.shard)
        self.tally.seen += batch.num_rows
        self.tally.taken += mine.num_rows
        return mine

    def tables(self, found: Iterable[Mapping[str, pa.RecordBatch]]) -> dict[str, pa.RecordBatch]:
        """The rows of this shard in the tables of all headers, by the names of the tables."""
        named: dict[str, list[pa.RecordBatch]] = {}
        for tables in found:
            for name, table in tables.items():
                named.setdefault(name, []).append(self.rows(table))
        wholes = {name: concat(parts) for name, parts in named.items()}
        return {name: whole for name, whole in wholes.items() if whole is not None and whole.num_rows}

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        wanted = self.aliases.get(name, name)
        for each in (name, *batch.schema.names):
            if each in batch.schema.names and self.aliases.get(each, each) == wanted:
                return batch.column(each)
        raise refused(f"rows with the columns {batch.schema.names} do not have the column `{name}`")


class Divisible(Protocol):
    """A part of an operator's state whose rows can be divided among shards: `Panes`, `SegmentedRows`."""

    def take_over(self, others: Sequence[Self], owned: Owned | None, entries: StateEntries) -> None:
        """Take up the rows that a shard owns from those of all shards. None: all rows.

        Some at a time, which are written to `entries`, so that memory does not have to hold all of them.
        """


def refused(reason: str) -> StateError:
    """The error for state that cannot be divided."""
    hint = "keep the number of shards, or begin anew with another one: windowpane reset"
    return StateError("RESCALE", f"the state cannot be divided among other shards: {reason}", hint)
