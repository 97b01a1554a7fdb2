"""On which shard a row lives: which columns decide, and what every shard has to hear of. The same for every host.

Rows must meet their copies for dedupe, and their group for a window. If no column tells both, rows are shuffled twice:
by the key of dedupe in front of the first stateful stage, by the groups in front of the second.
"""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.plan.node_fields import Aggregation, ColumnUse, WindowPlan
from windowpane.sql.query import StreamJoin


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


@dataclass(frozen=True)
class Layout:
    """Where the stateful stages of a query run."""

    window: Placement
    dedupe: Placement | None = None
    """Where dedupe compares rows, if that is not where the window is."""
    quota: bool = False
    """The groups of each window are counted in a stage in front of the window."""
    join: Placement | None = None
    """Where rows of two streams are joined, if that is not where joined rows are aggregated."""

    @property
    def is_spread(self) -> bool:
        """Rows are shuffled more than once."""
        return self.quota or self.dedupe is not None or self.join is not None

    def describe(self) -> str:
        """For EXPLAIN: one shuffle, or all of them in the order in which rows pass them."""
        if not self.is_spread:
            return self.window.describe()
        dedupe = () if self.dedupe is None else (f"{self.dedupe.describe()} to dedupe",)
        join = () if self.join is None else (f"{self.join.describe()} to join",)
        last = self.describe_quota() if self.quota else [self.window.describe()]
        return ", then ".join((*dedupe, *join, *last))

    def describe_quota(self) -> list[str]:
        """The shuffles of a window whose groups are counted."""
        return ["groups by window to count them", self.window.describe()]


def place(window: WindowPlan | None, aggregation: Aggregation | None, dedupe: tuple[ColumnUse, ...]) -> Layout:
    """The layout that spreads the work most. `dedupe` are the columns that rows are compared by."""
    own = _of_window(window, aggregation)
    shared = _shared_with_dedupe(dedupe, window, aggregation)
    quota = _limited(aggregation) and bool(own.route_by)
    if not dedupe:
        return Layout(own, quota=quota)
    if shared.route_by:
        return Layout(own, dedupe=shared, quota=True) if quota else Layout(shared)
    return Layout(own, dedupe=_by(dedupe), quota=quota)


def place_together(window: WindowPlan | None, aggregation: Aggregation | None, dedupe: tuple[ColumnUse, ...]) -> Layout:
    """The layout with one shuffle."""
    if window is not None and _limited(aggregation):
        return Layout(Placement(why_one="max_groups counts the groups of the whole window"))
    if window is not None and dedupe:
        return Layout(_shared_with_dedupe(dedupe, window, aggregation))
    return Layout(_of_window(window, aggregation))


def place_copies(dedupe: tuple[ColumnUse, ...]) -> Placement:
    """Where the copies of a row are compared by these columns."""
    return _by(dedupe)


def place_joined(
    join: StreamJoin, aggregation: Aggregation | None, *, local: bool, dedupe: tuple[ColumnUse, ...] = ()
) -> Layout:
    """Rows are joined where their keys say. `local`: the groups of joined rows have all their rows there. `dedupe`: the
    columns that rows are compared by, if copies do not agree in the keys of the join anyway.
    """
    by_key, early = _by_join_keys(join), _by(dedupe) if dedupe else None
    keys = aggregation.keys if aggregation else ()
    if local and not _limited(aggregation):
        return Layout(by_key, dedupe=early)
    own = _by(keys) if keys else Placement(why_one="there are no groups")
    return Layout(own, dedupe=early, quota=_limited(aggregation), join=by_key)


def place_joined_together(
    join: StreamJoin, aggregation: Aggregation | None, dedupe: tuple[ColumnUse, ...] = ()
) -> Layout:
    """The layout of a join with one shuffle."""
    if dedupe:
        return Layout(Placement(why_one="dedupe compares rows of the whole stream"))
    return Layout(Placement(why_one="joined rows of all keys are grouped") if aggregation else _by_join_keys(join))


def _by_join_keys(join: StreamJoin) -> Placement:
    return Placement(join.keys, labels=join.labels)


def _of_window(window: WindowPlan | None, aggregation: Aggregation | None) -> Placement:
    """Windows that are cut by columns live where those columns say; a window over the whole stream lives in one shard.

    A sliding window over the stream whose rows are grouped is cut by the groups: a shard that knows all triggers can
    tell what its own groups were at each.
    """
    keys = aggregation.keys if aggregation else ()
    if window is None:
        return Placement(why_one="rows are released in order over the whole stream")
    if window.spec.per_group:
        return _by(keys) if keys else Placement(why_one="there are no groups")
    if window.partition_by:
        labels = {use.column: use.label for use in keys}
        names = tuple(labels.get(name, name) for name in window.partition_by)
        return Placement(window.partition_by, labels=names)
    if window.spec.triggered and keys:
        return _by(keys, broadcast=True)
    return Placement(why_one="the window is over the whole stream")


def _shared_with_dedupe(
    dedupe: tuple[ColumnUse, ...], window: WindowPlan | None, aggregation: Aggregation | None
) -> Placement:
    """By the columns that dedupe compares too: rows that agree in either key agree in these, and meet in one shard."""
    compared = {use.column: use.label for use in dedupe}
    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    if window is not None and window.spec.per_group:
        shared = tuple(use for use in (aggregation.keys if aggregation else ()) if use.column in compared)
        names, labels = tuple(use.name for use in shared), tuple(use.label for use in shared)
    elif window is not None:
        names = tuple(name for name in window.partition_by if name in compared)
        labels = tuple(compared[name] for name in names)
    return Placement(names, labels=labels, why_one="dedupe compares rows of the whole stream")


def _limited(aggregation: Aggregation | None) -> bool:
    return aggregation is not None and aggregation.max_groups is not None


def _by(keys: tuple[ColumnUse, ...], *, broadcast: bool = False) -> Placement:
    return Placement(tuple(use.name for use in keys), broadcast, tuple(use.label for use in keys))
