"""On which shard a row lives: which columns decide, and what every shard has to hear of. The same for every host."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.plan.node_fields import Aggregation, ColumnUse, WindowPlan


@dataclass(frozen=True)
class Placement:
    """`route_by`: columns whose values decide on the shard. `broadcast`: every shard hears of every sliding trigger."""

    route_by: tuple[str, ...] = ()
    broadcast: bool = False
    labels: tuple[str, ...] = ()
    why_one: str = ""

    def describe(self) -> str:
        """For EXPLAIN."""
        if not self.route_by:
            return f"one: {self.why_one}"
        return f"by {', '.join(self.labels)}" + (", every trigger is sent to all" if self.broadcast else "")


def place(window: WindowPlan | None, aggregation: Aggregation | None, dedupe: tuple[ColumnUse, ...]) -> Placement:
    """Windows that are cut by columns live where those columns say; a window over the whole stream lives in one shard.

    A sliding window over the stream whose rows are grouped is cut by the groups: a shard that knows all triggers can
    tell what its own groups were at each. `dedupe` are the columns that rows are compared by.
    """
    keys = aggregation.keys if aggregation else ()
    if window is None:
        return Placement(why_one="rows are released in order over the whole stream")
    if aggregation is not None and aggregation.max_groups is not None:
        return Placement(why_one="max_groups counts the groups of the whole window")
    if dedupe:
        return _shared_with_dedupe(dedupe, window, keys)
    if window.spec.per_group:
        return _by(keys) if keys else Placement(why_one="there are no groups")
    if window.partition_by:
        labels = {use.column: use.label for use in keys}
        names = tuple(labels.get(name, name) for name in window.partition_by)
        return Placement(window.partition_by, labels=names)
    if window.spec.triggered and keys:
        return _by(keys, broadcast=True)
    return Placement(why_one="the window is over the whole stream")


def _shared_with_dedupe(dedupe: tuple[ColumnUse, ...], window: WindowPlan, keys: tuple[ColumnUse, ...]) -> Placement:
    """By the columns that dedupe compares too: rows that agree in either key agree in these, and meet in one shard."""
    compared = {use.column: use.label for use in dedupe}
    if window.spec.per_group:
        shared = tuple(use for use in keys if use.column in compared)
        names, labels = tuple(use.name for use in shared), tuple(use.label for use in shared)
    else:
        names = tuple(name for name in window.partition_by if name in compared)
        labels = tuple(compared[name] for name in names)
    return Placement(names, labels=labels, why_one="dedupe compares rows of the whole stream")


def _by(keys: tuple[ColumnUse, ...], *, broadcast: bool = False) -> Placement:
    return Placement(tuple(use.name for use in keys), broadcast, tuple(use.label for use in keys))
