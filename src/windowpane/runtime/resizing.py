"""The limits of one transform's micro-batches while it runs: watched, moved, remembered in the checkpoint, told.

Spark takes a source's limit when a query starts. So a new one ends the query between two micro-batches and begins it
again; the batch that was planned already comes first, as it was planned.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import PipelineConfig
from windowpane.connectors.backlog import Backlog, Shares, left_behind
from windowpane.connectors.limits import Limits, is_movable, limit_text
from windowpane.durable import read_object, write_whole
from windowpane.errors import StateError
from windowpane.formats.sources import Unit
from windowpane.plan.build import Plan
from windowpane.runtime.sizing import BatchSizing

FORMAT = 1
SIZE_FILE = "batch-size.json"
_UNITS: tuple[Unit, ...] = ("bytes", "records")
_log = logging.getLogger("windowpane.run")


class Resizing:
    """Told of every micro-batch before and after it runs. `units` are those of the limits that move."""

    def __init__(
        self, transform: str, sizing: BatchSizing, backlog: Backlog, memory: Path, units: Collection[Unit]
    ) -> None:
        self._transform, self._sizing, self._backlog, self._memory = transform, sizing, backlog, memory
        self._units = units
        self._shares: Shares = {}
        self._seconds: float | None = None
        self._left: float | None = None
        self._changed: dict[str, Any] = {}

    @property
    def limits(self) -> Limits:
        """What streams without limits of their own are to be opened with."""
        return Limits.scaled(self._sizing.scale, self._backlog.max_rows)

    @property
    def restart_s(self) -> float:
        """How long it took from the end of a query to the first batch of the next, the last time."""
        return self._sizing.restart_s

    def begun(self) -> None:
        """The query begins, or begins again."""
        self._sizing.begun()
        self._shares, self._seconds = {}, None

    def is_to_change(self, batch_id: int) -> bool:
        """Before a batch runs: whether the query is to begin again, since `limits` are now others."""
        if self._left is not None:
            self._sizing.restart_s, self._left = time.monotonic() - self._left, None
        try:
            then = self._backlog.shares(batch_id)
        except (
            OSError,
            ValueError,
            LookupError,
            StateError,
        ):  # the checkpoint of another version of Spark, or on its way
            then = {}
        size = left_behind(self._shares, then, self.limits)
        seconds, self._shares, self._seconds = self._seconds, then, None
        before = self.limits
        if seconds is None or not self._sizing.judge(size, seconds):
            return False
        self._left = time.monotonic()
        self._note(batch_id, before, seconds)
        return True

    def took(self, seconds: float) -> None:
        """After a batch."""
        self._seconds = seconds

    def told(self) -> dict[str, Any]:
        """For the status: the limits that move, the target, and the last change."""
        shown = {"target_us": round(self._sizing.target_s * 1_000_000)} | self._shown(self.limits)
        return shown | ({"changed": self._changed} if self._changed else {})

    def _shown(self, limits: Limits) -> dict[str, int]:
        found = {unit: limits.of(unit) for unit in _UNITS if unit in self._units}
        return {unit: limit for unit, limit in found.items() if limit}

    def _note(self, batch_id: int, before: Limits, seconds: float) -> None:
        old, new = self._shown(before), self._shown(self.limits)
        self._changed = {"after_batch": batch_id - 1, "at_us": time.time_ns() // 1000, "from": old}
        remembered = {"format": FORMAT, "scale": self._sizing.scale, "changed": self._changed}
        write_whole(self._memory, json.dumps(remembered, indent=1))
        _log.info(
            "transform `%s`: a micro-batch on the backlog took %.1f s, the target is %.1f s: limit %s, was %s",
            self._transform, seconds, self._sizing.target_s, limit_text(new), limit_text(old),
        )  # fmt: skip

    def recall(self) -> None:
        """Go on with what an earlier run has found. A file that cannot be read is as good as none."""
        try:
            found = read_object(self._memory, {"scale": (int, float)}) or {}
            scale, changed = float(found["scale"]), found.get("changed")
            if not math.isfinite(scale):
                return
            self._changed = self._read_change(changed) if changed else {}
        except (StateError, ValueError, TypeError, LookupError, AttributeError):
            return
        self._sizing = BatchSizing(self._sizing.target_s, scale)

    def _read_change(self, said: dict[str, Any]) -> dict[str, Any]:
        before = {unit: int(amount) for unit, amount in said["from"].items() if unit in self._shown(self.limits)}
        return {"after_batch": int(said["after_batch"]), "at_us": int(said["at_us"]), "from": before}


def resizing(config: PipelineConfig, plan: Plan, checkpoint: Checkpoint) -> Resizing | None:
    """For a transform whose batches may grow and shrink; None where it is turned off or the user has set all limits."""
    options = config.options
    names = {stream.name for stream in plan.query.relation.streams}
    streams = {name: stream for name, stream in config.streams.items() if name in names}
    movable = [each for each in streams.values() if is_movable(each, options.max_rows_per_batch)]
    units = {each.source_format.limit.unit for each in movable if each.source_format.limit is not None}
    if options.batch_target_us is None or not units:
        return None
    backlog = Backlog(Path(checkpoint.spark), streams, config.base_dir, checkpoint.reinject, options.max_rows_per_batch)
    found = Resizing(
        plan.transform, BatchSizing(options.batch_target_us / 1e6), backlog, checkpoint.folder / SIZE_FILE, units
    )
    found.recall()
    return found
