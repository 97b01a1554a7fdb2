"""Side rows that are read again: lines of JSON in a folder of the checkpoint, which the query reads beside its source.

A micro-batch writes one file before Spark commits it, and a file is read by exactly one later micro-batch, as with any
file source. Until then its rows are buffered: read, and their fate not decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.rows import plain
from windowpane.durable import corrupt, write_whole


@dataclass(frozen=True)
class Round:
    """A micro-batch's side rows parted: those that stay aside, and the lines that go back, by stream."""

    rows: tuple[pa.RecordBatch, ...]
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows that go back by the kind they had."""


@dataclass(frozen=True)
class Reinjection:
    """The queue of a transform. `limits`: how often a row of each kind may go round; `rates`: rows per second."""

    folder: Path
    stream: str
    """Name of the only stream, for rows that do not say theirs."""
    limits: Mapping[str, int]
    rates: Mapping[str, int] = field(default_factory=dict)

    def queue(self, stream: str) -> Path:
        return queue_folder(self.folder, stream)

    def part(self, rows: Iterable[pa.RecordBatch], seconds: float) -> Round:
        """Rows that have come back too often, that exceed the rate, or that are no source's rows stay aside."""
        left = {kind: int(self.rates[kind] * seconds) for kind in self.limits if kind in self.rates}
        stay, lines, counts = list[pa.RecordBatch](), dict[str, list[str]](), Counter[str]()
        for batch in rows:
            back = self._goes_back(batch, left)
            if not back.any():
                stay.append(batch)
                continue
            stay += [batch.filter(pa.array(~back))] if not back.all() else []
            for kind, stream, texts in self._lines(batch.filter(pa.array(back))):
                counts[kind] += len(texts)
                lines.setdefault(stream, []).extend(texts)
        return Round(tuple(stay), lines, counts)

    def _goes_back(self, batch: pa.RecordBatch, left: dict[str, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
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

    def put(self, batch_id: int, lines: Mapping[str, Sequence[str]]) -> None:
        """Durable when this returns, and seen whole or not at all."""
        for stream, texts in lines.items():
            write_whole(self.queue(stream) / f"{batch_id:012}.json", "".join(f"{text}\n" for text in texts))

    def forget_after(self, batch_id: int) -> None:
        """Batches after this one were never committed: they come again."""
        for path in self.folder.glob("*/*.json"):
            if not path.stem.isdigit() or not path.is_file():
                raise corrupt(path, "it holds no rows to be read again", "move it out of the checkpoint")
            if int(path.stem) > batch_id:
                path.unlink()


def queue_folder(folder: Path, stream: str) -> Path:
    """Where rows of a stream wait to be read again."""
    return folder / stream
