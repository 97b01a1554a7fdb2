"""A fold that several transforms share (`plan/shared_folds.py`): the rows of a task are folded once, into panes, and
each transform gets the messages that it would get alone. Workers import this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.frames import Clock, Frame, Given, Partials, Rows, SideRows
from windowpane.core.lateness import LatenessJudge
from windowpane.core.numbering import NOWHERE, Portion
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.operators.shared_panes import PaneFolding, PaneKeys, PaneShare, judged_at
from windowpane.core.side import Key
from windowpane.errors import InternalError
from windowpane.spark.batch_context import BatchContext
from windowpane.spark.fold import Fold
from windowpane.spark.stages import Stages
from windowpane.spark.timings import FOLD, timed

_ALL = ""
"""In place of a tag: frames that all transforms of a fold have in common."""


@dataclass(frozen=True)
class SharedPanes:
    """A shared fold, sent to the workers."""

    name: str
    """Under which the scan gives its rows."""
    stages: Stages
    """The operators before the shuffle, intake and `PaneFolding`, over columns of the shared names."""
    keys: Mapping[str, tuple[Key, ...]]
    """Of each transform, by tag: its keys, by their shared names."""
    names: Mapping[str, Mapping[str, str]]
    """Of each transform, by tag: its keys and its aggregates, each with the shared name."""

    def share(self, tag: str, plan: PartialAggregation) -> PaneShare:
        """What a transform takes of the panes, which `plan` would fold alone."""
        columns = {name: self._shared(tag, name) for name in plan.aggregator.state_schema().names}
        return PaneShare(replace(plan.plan, keys=self.keys[tag]), plan.aggregator, columns)

    def _shared(self, tag: str, name: str) -> str:
        """The shared name of a key, or of a state column such as `_a0.1`."""
        names = self.names[tag]
        call, dot, number = name.rpartition(".")
        return names[name] if name in names else f"{names[call]}{dot}{number}"


class _Unit:
    """Transforms of a shared fold that make the same messages."""

    def __init__(self, panes: SharedPanes, tags: tuple[str, ...], stages: Stages) -> None:
        self.tags, self.stages = tags, stages
        node = stages.fold().nodes[-1]
        if not isinstance(node.operator, PartialAggregation):
            raise InternalError("SHARED_FOLD", f"{tags[0]} folds by {type(node.operator).__name__}")
        self.share, self._sender = panes.share(tags[0], node.operator), node.name

    def frames(self, portion: Portion, panes: PaneKeys | None) -> Iterator[Given]:
        """What these transforms send of a portion. `panes`: all accumulators of the portion."""
        for source, frame in portion.frames:
            if source == _ALL and isinstance(frame, SideRows):
                yield Given(self._sender, judged_at(frame, self.share.watermark_us))
            elif source in (_ALL, self.tags[0]) and not isinstance(frame, Partials):
                yield Given(self._sender, frame)
        own = None if panes is None else self.share.panes(panes)
        if own is not None:
            yield Given(self._sender, own)


class SharedFold(Fold):
    """One task's rows, folded for several transforms."""

    def __init__(
        self, panes: SharedPanes, units: Sequence[tuple[tuple[str, ...], Stages]], context: BatchContext
    ) -> None:
        """`units`: tags of transforms that are alike, with their stages."""
        self._units = [_Unit(panes, tags, stages) for tags, stages in units]
        super().__init__(panes.stages, tuple(tag for tags, _ in units for tag in tags), context)
        (self._folding,) = (each for each in self._graph.operators if isinstance(each, PaneFolding))
        self._known = context

    def judges(self) -> list[tuple[str, LatenessJudge]]:
        found = [(unit.tags[0], unit.stages.judge) for unit in self._units]
        return [(tag, judge) for tag, judge in found if judge is not None]

    def _begin(self, batch: pa.RecordBatch) -> None:
        """Each transform judges rows by its own watermark, so the common operators are given none."""
        self.clock_us = self._known.clock_us
        self._given(Clock(self.clock_us))
        for unit in self._units:
            unit.share.begin(self.clock_us, self._known.watermark_us(unit.tags[0]))

    def _given(self, frame: Frame) -> list[Given]:
        """Frames with the tag of the transforms that they are for."""
        found, earliest_us = list[Given](), 0
        for _, each in super()._given(frame):
            if isinstance(each, Partials):
                earliest_us = pc.min(each.batch.column(c.PANE)).as_py()
            if isinstance(each, Rows):
                found += [Given(unit.tags[0], late) for unit in self._units
                          for late in unit.share.side_rows(each.batch, earliest_us)]  # fmt: skip
            else:
                found.append(Given(_ALL, each))
        return found

    def messages(self, task: int) -> dict[str, list[bytes]]:
        with timed(self.spent, FOLD):
            panes = [self._panes(portion) for portion in self.portions]
            sent = [
                [Portion(portion.place, portion.rows, list(unit.frames(portion, own)))
                 for portion, own in zip(self.portions, panes, strict=True)]
                for unit in self._units
            ]  # fmt: skip
        found: dict[str, list[bytes]] = {}
        for unit, portions in zip(self._units, sent, strict=True):
            parts = portions if unit.stages.ordered else _joined(portions)
            payloads = self.packed(unit.stages, unit.tags[0], parts, self.counts + unit.share.counts, task)
            found |= dict.fromkeys(unit.tags, payloads)
        return found

    def _panes(self, portion: Portion) -> PaneKeys | None:
        folded = [frame.batch for _, frame in portion.frames if isinstance(frame, Partials)]
        return PaneKeys.of(self._folding.merged(folded), self._folding.keys) if folded else None


def _joined(portions: Sequence[Portion]) -> list[Portion]:
    """Portions as one, for transforms whose rows have no order."""
    frames = [given for portion in portions for given in portion.frames]
    return [Portion(NOWHERE, sum(portion.rows for portion in portions), frames)]
