"""Why a result of the stream differs from that of a batch: what its ledger and its side outputs say of the window."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from windowpane.checkpoint.ledger import Entry
from windowpane.core.windows.aligned import AlignedSpec
from windowpane.core.windows.sliding import Sliding
from windowpane.plan.stages import ChainStage, StageGraph
from windowpane.runtime.comparing import Difference
from windowpane.time import format_instant, from_datetime

Reason: TypeAlias = Literal["late", "evicted", "not_closed", "waiting", "unknown"]
LOST = ("late", "evicted")
"""Kinds of side rows that a batch has in its results: whether a row is one depends on when it came."""
_WORDS = {"late": "late", "evicted": "evicted"}


@dataclass(frozen=True)
class Explained:
    """A difference, the reason for it, and how that is known."""

    difference: Difference
    reason: Reason
    evidence: str

    def as_dict(self) -> dict[str, Any]:
        found = self.difference
        return {
            "kind": found.kind, "reason": self.reason, "evidence": self.evidence, "key": _jsonable(found.key),
            "batch": _jsonable(found.expected), "stream": _jsonable(found.emitted),
        }  # fmt: skip


@dataclass(frozen=True)
class Closing:
    """Where the windows of a query begin and end, and when the stream closes them."""

    before_us: int = 0
    """How long a window begins before the instant by which it is named: the lookback of a sliding window."""
    length_us: int | None = None
    """From that instant to the end of the longest window, if the window's kind knows."""
    delay_us: int = 0
    """How far the watermark is behind the end of a window when it closes."""

    @classmethod
    def of(cls, stages: StageGraph) -> Closing:
        window = stages.window.window
        below = sum(stage.behind_us for stage in stages.of(ChainStage))
        if window is None:
            return cls(delay_us=below)
        delay_us = window.allowed_lateness_us + below
        match window.spec:
            case Sliding(lookback_us, lookahead_us):
                return cls(lookback_us, (lookahead_us or 0) + 1, below - 1)
            case AlignedSpec():
                return cls(0, window.spec.longest_us(), delay_us)
        return cls(delay_us=delay_us)

    def bounds(self, found: Difference) -> tuple[int, int] | None:
        """Start and end of the window of a difference; None if the results do not tell."""
        if found.start_us is None:
            return None
        if found.end_us is not None and not self.before_us:
            return found.start_us, found.end_us
        if self.length_us is None:
            return None
        return found.start_us - self.before_us, found.start_us + self.length_us


@dataclass(frozen=True)
class SideRecord:
    """What matters of a side record here."""

    kind: str
    event_us: int | None
    window: tuple[int, int] | None
    group: Mapping[str, Any] | None

    @classmethod
    def read(cls, text: str) -> SideRecord | None:
        """None for a text that is not a side record of a kind that matters."""
        try:
            record = json.loads(text)
            if record.get("kind") not in LOST:
                return None
            window = record.get("window")
            bounds = (_us(window["start"]), _us(window["end"])) if window else None
            event_us = _us(record["event_time"]) if record.get("event_time") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return cls(record["kind"], event_us, bounds, record.get("group_key"))

    def concerns(self, found: Difference, bounds: tuple[int, int] | None) -> bool:
        """Whether the row belongs to the window and group of a difference. `bounds`: of the window."""
        if bounds is None:
            return False
        inside = self.event_us is not None and bounds[0] <= self.event_us < bounds[1]
        if not inside and self.window != bounds:
            return False
        shared = [name for name in (self.group or {}) if name in found.key]
        return all(_text((self.group or {})[name]) == _text(found.key[name]) for name in shared)


@dataclass(frozen=True)
class StreamFacts:
    """What the stream says about itself. `records`: side records of LOST kinds that can be read."""

    last: Entry | None
    finished: bool
    closing: Closing
    records: Sequence[SideRecord] = ()
    waiting: int = 0
    """Results that wait for the sink, which was away."""
    _kept: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._kept.update(record.kind for record in self.records)

    def explain(self, differences: Iterable[Difference]) -> list[Explained]:
        return [Explained(each, *self._reason(each)) for each in differences]

    def _reason(self, found: Difference) -> tuple[Reason, str]:
        if self._is_open(found):
            return "not_closed", f"the stream's watermark is at {self._watermark()}"
        bounds = self.closing.bounds(found)
        counts = Counter(record.kind for record in self.records if record.concerns(found, bounds))
        for kind in LOST:
            if counts[kind]:
                return _reason_of(kind), f"the side output has {_rows(counts[kind], kind)} of this window"
        if self.waiting and found.kind != "extra":
            return "waiting", f"{self.waiting:,} results wait in the checkpoint for the sink"
        for kind in LOST:
            unseen = self._counted(kind) - self._kept[kind]
            if unseen > 0:
                return _reason_of(kind), f"probably: the ledger counts {_rows(unseen, kind)}{self._why_unseen(kind)}"
        return "unknown", "the ledger counts no late or evicted row that could explain it"

    def _why_unseen(self, kind: str) -> str:
        dropped = (self.last.sums.get("dropped", {}) if self.last else {}).get(kind, 0)
        if dropped:
            return f", and {dropped:,} records were dropped by a rate limit"
        return " that no side output shows"

    def _is_open(self, found: Difference) -> bool:
        """Whether the stream may still emit the window."""
        if self.finished or found.kind == "extra":
            return False
        if self.last is None or self.last.watermark_us is None:
            return True
        bounds = self.closing.bounds(found)
        return bounds is not None and self.last.watermark_us < bounds[1] + self.closing.delay_us

    def _watermark(self) -> str:
        us = self.last.watermark_us if self.last else None
        return "nothing yet" if us is None else format_instant(us)

    def _counted(self, kind: str) -> int:
        return self.last.totals.get(kind, 0) if self.last else 0


def _reason_of(kind: str) -> Reason:
    return "late" if kind == "late" else "evicted"


def _rows(count: int, kind: str) -> str:
    return f"{count:,} {_WORDS[kind]} row{'' if count == 1 else 's'}"


def _us(text: str) -> int:
    return from_datetime(dt.datetime.fromisoformat(text))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, (dt.date, dt.datetime)) else str(value)


def _jsonable(row: Mapping[str, Any] | None) -> Any:
    return None if row is None else json.loads(json.dumps(dict(row), default=_text))
