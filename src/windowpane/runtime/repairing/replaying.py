"""Replays side rows whose windows are still open: they re-enter the stream with a later micro-batch, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windowpane.checkpoint.replays import Replay
from windowpane.core import columns as c
from windowpane.core.rows import int64s
from windowpane.errors import StateError
from windowpane.plan.lateness import lateness_judge
from windowpane.runtime.asking.asked import Asked, now_us, shown
from windowpane.runtime.asking.input_rows import InputRows, chosen_stream
from windowpane.runtime.repairing.candidates import Candidate, find_candidates, taken_records
from windowpane.runtime.repairing.judging import evaluated, judged_input, marked, parted
from windowpane.runtime.repairing.repairing import RepairOptions

MOST_ROWS = 10_000
"""Rows of one replay, which travel with the task descriptions of a micro-batch."""


@dataclass(frozen=True)
class Replayed:
    """What a replay has done, or would do."""

    transform: str
    replay: Replay | None
    """None if no row can be replayed."""
    refused: Sequence[Candidate]
    left: int = 0
    """Rows beyond MOST_ROWS: another replay takes them."""
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Values of JSON only: another process may have asked."""
        found = {
            "transform": self.transform, "dry_run": self.dry_run,
            "replay": None if self.replay is None or self.dry_run else self.replay.number,
            "replayed": {} if self.replay is None else self.replay.kinds,
            "after_batch": None if self.replay is None else self.replay.after_batch,
            "left": self.left, "refused": [each.as_dict() for each in self.refused],
        }  # fmt: skip
        return dict(json.loads(json.dumps(found, default=str)))


def foresee_replay(asked: Asked, options: RepairOptions) -> Replayed:
    """What a replay would do. Changes nothing."""
    _check(asked)
    stream = chosen_stream(asked, options.stream)
    candidates = find_candidates(asked, options.sink, options.where, taken_records(asked.checkpoint))
    refused = [each for each in candidates if each.refused is not None]
    given, rows = evaluated(asked, [each for each in candidates if each.refused is None], InputRows(asked, stream))
    taken, more = parted(given, _reasons(asked, rows))
    chosen, left = taken[:MOST_ROWS], len(taken[MOST_ROWS:])
    number = max((each.number for each in asked.checkpoint.replays.all()), default=-1) + 1
    replay = Replay(
        number, "waiting", now_us(), asked.checkpoint.log.last_planned(), stream,
        dict(Counter(each.record.kind for each in chosen)), [each.record.id for each in chosen],
        [each.row or {} for each in chosen],
    )  # fmt: skip
    return Replayed(asked.name, replay if chosen else None, [*refused, *more], left, dry_run=options.dry_run)


def replay_rows(asked: Asked, options: RepairOptions) -> Replayed:
    """Only the holder of the lease may call it; no micro-batch may run. The next one that is planned takes the rows."""
    found = foresee_replay(asked, options)
    if found.replay is not None:
        asked.checkpoint.replays.put(found.replay)
    return replace(found, dry_run=False)


def _check(asked: Asked) -> None:
    if asked.finished:
        raise StateError(
            "CHECKPOINT_FINISHED", f"transform `{asked.name}` has ended gracefully: all its windows are closed",
            "fold the rows into their windows: windowpane repair",
        )  # fmt: skip
    if asked.checkpoint.record().earlier:
        raise StateError(
            "HAND_OVER_RUNS", f"transform `{asked.name}` hands its windows over to another plan, which has not ended",
            "run the pipeline until it has: windowpane history shows the cut",
        )  # fmt: skip


def _reasons(asked: Asked, rows: pa.RecordBatch) -> list[str | None]:
    """For each row, why it cannot be replayed."""
    reasons: list[str | None] = [None] * rows.num_rows
    judge, watermark_us = lateness_judge(asked.plan.stages), asked.watermark_us
    if judge is not None and watermark_us is not None:
        ts = int64s(rows, c.EVENT_TIME)
        behind_us = judge.chance.behind_us(ts, watermark_us) - (0 if asked.row_rule else asked.lateness_us)
        reasons = marked(reasons, behind_us >= 0, _closed(asked))
    has_time = rows.column(c.EVENT_TIME).is_valid().to_numpy(zero_copy_only=False)
    return judged_input(rows, marked(reasons, np.logical_not(has_time), None))


def _closed(asked: Asked) -> str:
    at = f"the watermark is at {shown(asked.watermark_us)}"
    if asked.plan.keep_closed_us is not None:
        return f"its windows are closed, {at}: use windowpane repair"
    return f"it would be late again, {at}"
