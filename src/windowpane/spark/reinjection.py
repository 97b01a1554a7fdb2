"""Which side rows are read again, and the lines that the queue gets for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.checkpoint.reinjection_queue import ReinjectionQueue
from windowpane.core import columns as c
from windowpane.core.rows import plain


@dataclass(frozen=True)
class ReinjectionSplit:
    """The side rows of a micro-batch: those for side sinks, and the lines for the queue, by stream."""

    rows: tuple[pa.RecordBatch, ...]
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each kind are read again."""


@dataclass(frozen=True)
class Reinjection:
    """The rules of a transform. `limits`: how often a row of each kind may be read again; `rates`: rows per second."""

    queue: ReinjectionQueue
    stream: str
    """The name of the only stream, for rows that do not name theirs."""
    limits: Mapping[str, int]
    rates: Mapping[str, int] = field(default_factory=dict)

    def split(self, rows: Iterable[pa.RecordBatch], seconds: float) -> ReinjectionSplit:
        """Rows that were read too often, that exceed the rate, or that are no rows of a source stay side rows."""
        left = {kind: int(self.rates[kind] * seconds) for kind in self.limits if kind in self.rates}
        stay, lines, counts = list[pa.RecordBatch](), dict[str, list[str]](), Counter[str]()
        for batch in rows:
            again = self._is_read_again(batch, left)
            if not again.any():
                stay.append(batch)
                continue
            stay += [batch.filter(pa.array(~again))] if not again.all() else []
            for kind, stream, texts in self._lines(batch.filter(pa.array(again))):
                counts[kind] += len(texts)
                lines.setdefault(stream, []).extend(texts)
        return ReinjectionSplit(tuple(stay), lines, counts)

    def _is_read_again(self, batch: pa.RecordBatch, left: dict[str, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        back = np.zeros(batch.num_rows, bool)
        if not pa.types.is_string(batch.schema.field("original_event").type):
            return back
        times = batch.column("reinjections").fill_null(0).to_numpy(zero_copy_only=False)
        there = batch.column("original_event").is_valid().to_numpy(zero_copy_only=False)
        for kind, limit in self.limits.items():
            mine = pc.equal(batch.column("kind"), kind).to_numpy(zero_copy_only=False) & there & (times < limit)
            if kind in left:
                mine &= np.cumsum(mine) <= left[kind]
                left[kind] -= int(mine.sum())
            back |= mine
        return back

    def _lines(self, batch: pa.RecordBatch) -> Iterable[tuple[str, str, list[str]]]:
        """Lines by kind and stream: the event as it was read, with one more on its count."""
        again = pc.add(batch.column("reinjections").fill_null(0), pa.scalar(1, pa.int32())).cast(pa.string())
        opened = pc.utf8_slice_codeunits(batch.column("original_event"), 0, -1)
        shards = pc.coalesce(plain(batch).column("shard"), f"{self.stream}/0")
        kinds = batch.column("kind")
        for shard in shards.unique().to_pylist():
            beside = f',"{c.SOURCE_PARTITION}":{json.dumps(shard)},"{c.REINJECTIONS}":'
            texts = pc.binary_join_element_wise(opened, beside, again, "}", "")
            for kind in kinds.unique().to_pylist():
                found = texts.filter(pc.and_(pc.equal(kinds, kind), pc.equal(shards, shard))).to_pylist()
                if found:
                    yield kind, shard.rpartition("/")[0], found
