"""What holds the watermark of a transform, since when, and what would release it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.runtime.asking.asked import Asked, now_us, shown, span

RECENT = 50
"""Micro-batches over which the rate of the watermark is taken."""


@dataclass(frozen=True)
class Holding:
    """Where the watermark stands, and why it is not further."""

    watermark_us: int | None
    held_by: str | None
    """The source partition with the smallest largest event time, of those that are not idle."""
    held_at_us: int | None
    """Its largest event time."""
    since_us: int | None
    """When, in processing time, its largest event time last grew."""
    since_batch: int | None
    unheard: list[str]
    """Streams that the watermark waits for and that have not had a row."""
    others_us: int | None
    """Where the watermark would be without that partition; None if it is the only one."""
    rate: float | None
    """Event time per processing time, over the last micro-batches."""

    @classmethod
    def of(cls, asked: Asked) -> Holding:
        last = asked.last
        if last is None or not last.maxima:
            return cls(last.watermark_us if last else None, None, None, None, None, _unheard(asked), None, None)
        held_by = last.held_by or min(last.maxima, key=lambda name: (last.maxima[name], name))
        since = _since(asked.entries, held_by)
        others = [us for name, us in last.maxima.items() if name != held_by]
        return cls(
            last.watermark_us, held_by, last.maxima[held_by], since.clock_us, since.batch_id, _unheard(asked),
            min(others) - asked.lag_us if others else None, _rate(asked.entries[-RECENT:]),
        )  # fmt: skip

    def describe(self, asked: Asked) -> list[str]:
        """Who holds the watermark, since when, and how far the others are."""
        if self.unheard:
            names = ", ".join(f"`{name}`" for name in self.unheard)
            return [f"There is no watermark: it waits for the first row of {names}."]
        if self.held_by is None or self.held_at_us is None:
            return ["There is no watermark: no row with an event time has been read."]
        lines = [
            (
                f"The watermark is at {shown(self.watermark_us)}. It is the largest event time of the slowest source "
                f"partition less the lag of {span(asked.lag_us)}."
            )
        ]
        alone = " It is the only partition." if self.others_us is None else ""
        lines.append(
            f"`{self.held_by}` holds it: its largest event time is {shown(self.held_at_us)}, "
            f"since batch {self.since_batch} at {shown(self.since_us)}.{alone}"
        )
        if self.others_us is not None and self.watermark_us is not None and self.others_us > self.watermark_us:
            lines.append(
                f"Without `{self.held_by}` the watermark would be at {shown(self.others_us)}, "
                f"{span(self.others_us - self.watermark_us)} further."
            )
        return lines

    def releases(self, asked: Asked, needed_us: int) -> list[str]:
        """What would move the watermark to an instant."""
        if asked.finished:
            return ["The pipeline has ended gracefully: every open window was emitted then."]
        lines = [] if asked.running else ["The pipeline is not running: windowpane run goes on from here."]
        row_us = needed_us + asked.lag_us
        where = f" in `{self.held_by}`" if self.held_by else ""
        lines.append(f"A row at {shown(row_us)} or later{where} would move the watermark far enough.")
        lines += self._idle(asked, needed_us)
        if asked.running:
            lines.append("windowpane drain emits it now, and ends the pipeline for good.")
        return lines

    def _idle(self, asked: Asked, needed_us: int) -> list[str]:
        timeout_us = asked.time.idle_timeout_us if asked.time else None
        if self.others_us is None:
            return []
        reach = "that is enough" if self.others_us >= needed_us else f"that is {span(needed_us - self.others_us)} short"
        if timeout_us is None:
            return [
                (
                    f"`options.idle_timeout` is not set, so a silent partition holds the watermark for ever. "
                    f"With it, the watermark would go on to {shown(self.others_us)} without `{self.held_by}`: {reach}."
                )
            ]
        left_us = max(0, (self.since_us or 0) + timeout_us - now_us())
        return [
            (
                f"If `{self.held_by}` stays silent, it is idle in {span(left_us)} (idle_timeout "
                f"{span(timeout_us)}), and the watermark goes on to {shown(self.others_us)}: {reach}."
            )
        ]

    def eta_us(self, asked: Asked, needed_us: int) -> int | None:
        """When, in processing time, the watermark gets there at the present rate; None if it does not."""
        if not asked.running or self.rate is None or self.rate <= 0 or self.watermark_us is None or not asked.last:
            return None
        return asked.last.clock_us + round(max(0, needed_us - self.watermark_us) / self.rate)

    def facts(self) -> dict[str, Any]:
        return {
            "watermark_us": self.watermark_us, "held_by": self.held_by, "held_at_us": self.held_at_us,
            "held_since_us": self.since_us, "held_since_batch": self.since_batch, "unheard_streams": self.unheard,
            "watermark_without_holder_us": self.others_us, "watermark_rate": self.rate,
        }  # fmt: skip


def _unheard(asked: Asked) -> list[str]:
    maxima = asked.last.maxima if asked.last else {}
    heard = {partition.rpartition("/")[0] for partition in maxima}
    return [stream for stream in (asked.time.streams if asked.time else ()) if stream not in heard]


def _since(entries: list[Entry], partition: str) -> Entry:
    """The first entry of those at the end in which the partition has its present largest event time."""
    found = entries[-1]
    for entry in reversed(entries):
        if entry.maxima.get(partition) != entries[-1].maxima[partition]:
            break
        found = entry
    return found


def _rate(entries: list[Entry]) -> float | None:
    known = [entry for entry in entries if entry.watermark_us is not None]
    if len(known) < 2 or known[-1].clock_us <= known[0].clock_us:
        return None
    assert known[0].watermark_us is not None
    assert known[-1].watermark_us is not None
    return (known[-1].watermark_us - known[0].watermark_us) / (known[-1].clock_us - known[0].clock_us)
