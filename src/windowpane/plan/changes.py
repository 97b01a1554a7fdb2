"""What a start with a changed query does to a checkpoint, by what has changed: see "Change of a query"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from windowpane.plan.shape import Names, PlanShape

ChangeKind: TypeAlias = Literal["unchanged", "taken_over", "state_dropped", "hand_over", "refused", "new", "removed"]

WORDS: dict[ChangeKind, str] = {
    "unchanged": "unchanged",
    "taken_over": "taken over from the next micro-batch on",
    "state_dropped": "taken over, and state that is no longer needed is dropped",
    "hand_over": "hand-over: the old query keeps the windows before the cut, the new one has those from the cut on",
    "refused": "refused",
    "new": "new: begins with the next micro-batch",
    "removed": "removed",
}
_TAKEN = {"outputs": "outputs", "steps": "HAVING, ORDER BY, LIMIT", "emit": "EMIT", "sinks": "sinks",
          "routes": "side_output", "lags_us": "lag", "late_rules": "late_rule"}  # fmt: skip
_HANDED = {"relation": "FROM", "where": "WHERE", "dedupe": "dedupe", "window": "window",
           "kept_as": "how the state is kept"}  # fmt: skip
RETIMES = ("lag", "late_rule", "EMIT", "allowed lateness")
"""Changes of what a micro-batch emits: one that was begun before has to be completed before."""


@dataclass(frozen=True)
class Change:
    """What becomes of one transform. `what` lists the parts that have changed."""

    kind: ChangeKind
    what: tuple[str, ...] = ()
    reason: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the new query can go on with the state at once."""
        return self.kind in ("unchanged", "taken_over", "state_dropped", "new")

    @property
    def needs_consent(self) -> bool:
        """Whether the user has to agree to it if the query is another one."""
        return self.kind in ("taken_over", "state_dropped", "hand_over")

    @property
    def words(self) -> str:
        changed = f" ({', '.join(self.what)})" if self.what else ""
        return f"{WORDS[self.kind]}{changed}" + (f": {self.reason}" if self.reason else "")


def compare(old: PlanShape, new: PlanShape, *, in_any_order: bool = False) -> Change:
    """What a change from one shape to another does. `in_any_order`: it is known in which order Spark reads streams."""
    if set(old.streams) != set(new.streams):
        was, now = ", ".join(old.streams), ", ".join(new.streams)
        reason = f"it read {was}, and would read {now}: rows of other streams were never in its state"
        return Change("refused", ("streams",), reason)
    same_reads = old.reads == new.reads or (in_any_order and sorted(old.reads) == sorted(new.reads))
    if old.reads and not same_reads:
        was, now = ", ".join(old.reads), ", ".join(new.reads)
        reason = f"FROM read {was}, and would read {now}: Spark goes on with the sources that it knows, in their order"
        return Change("refused", ("FROM",), reason)
    if set(old.time) != set(new.time):
        reason = "rows would have other times in both queries, and so be in the windows of none of them, or of both"
        return Change("refused", ("event time",), reason)
    handed = tuple(_handed(old, new))
    taken = tuple(_taken(old, new))
    if handed and (old.stays or new.stays):
        whose, why = ("present", old.stays) if old.stays else ("changed", new.stays)
        return Change("refused", (*handed, *taken), f"this needs a hand-over, which the {whose} query cannot take part "
                      f"in: {why}")  # fmt: skip
    if handed:
        return Change("hand_over", (*handed, *taken))
    dropped = [text for _, text in old.aggregates if text not in _texts(new.aggregates)]
    if dropped:
        return Change("state_dropped", (*(f"without {text}" for text in dropped), *taken))
    return Change("taken_over", taken) if taken else Change("unchanged")


def _handed(old: PlanShape, new: PlanShape) -> Iterator[str]:
    """The parts that the state depends on."""
    for field, words in _HANDED.items():
        if getattr(old, field) != getattr(new, field):
            yield words
    if _texts(old.keys) != _texts(new.keys):
        yield "keys"
    for text in sorted(_texts(new.aggregates) - _texts(old.aggregates)):
        yield f"also {text}"
    if not new.foldable:
        yield from (f"without {text}" for text in sorted(_texts(old.aggregates) - _texts(new.aggregates)))
    if _texts(old.carried) != _texts(new.carried):
        yield "columns of kept rows"
    if (old.max_groups is None) != (new.max_groups is None):
        yield "max_groups"
    if old.lateness_us[:-1] != new.lateness_us[:-1]:
        yield "allowed lateness of an inner window"


def _taken(old: PlanShape, new: PlanShape) -> Iterator[str]:
    """The parts that can change at once."""
    for field, words in _TAKEN.items():
        if getattr(old, field) != getattr(new, field):
            yield words
    if old.lateness_us[-1:] != new.lateness_us[-1:]:
        yield "allowed lateness"
    if None not in (old.max_groups, new.max_groups) and old.max_groups != new.max_groups:
        yield "max_groups"


def settings_only(old: PlanShape, new: PlanShape, found: Change) -> Change:
    """The same where the query itself is as it was, so that its texts say nothing: only what settings can change."""
    names = ("time", "dedupe", "max_groups", "lateness_us", "lags_us", "late_rules", "sinks", "routes")
    changed = replace(old, **{name: getattr(new, name) for name in names})
    return found if found.kind == "unchanged" else compare(old, changed)


def _texts(names: Names) -> set[str]:
    return {text for _, text in names}


def closed_until_us(old: PlanShape, new: PlanShape, watermark_us: int | None) -> int | None:
    """Windows that end here or before are closed, and stay so. None where the new query closes no window later."""
    if watermark_us is None or not old.lateness_us or new.lateness_us[-1] <= old.lateness_us[-1]:
        return None
    return watermark_us - old.lateness_us[-1]
