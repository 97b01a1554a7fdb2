"""Which operators run each window kind. A kind inherits those of its base: a new aligned kind needs no line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from windowpane.core.aggregation import Aggregator
from windowpane.core.emission import EmitPolicy
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.count_window import CountWindow
from windowpane.core.operators.group_quota import AdmitGroups, QuotaAggregation, RequestGroups
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.core.operators.merge_session_aggregation import MergeSessionAggregation
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.operators.partial_session_aggregation import PartialSessionAggregation
from windowpane.core.operators.row_windows import AlignedRowWindow
from windowpane.core.operators.session_row_window import SessionRowWindow
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.operators.sliding import SlidingAggregation, SlidingWindow
from windowpane.core.operators.state_window import StateWindow
from windowpane.core.side import Key
from windowpane.core.windows import AlignedSpec, Count, Session, Sliding, State, WindowSpec
from windowpane.core.windows.cut import Cut
from windowpane.errors import InternalError


@dataclass(frozen=True)
class WindowSettings:
    """A window as a query uses it: what its operators are built from."""

    spec: WindowSpec
    keys: tuple[Key, ...] = ()
    """Keys of the groups inside the window."""
    partition_by: tuple[str, ...] = ()
    allowed_lateness_us: int = 0
    closed_until_us: int | None = None
    """As of `AlignedPlan`."""
    cut: Cut | None = None
    """As of `AlignedPlan`."""
    max_groups: int | None = None
    per_window: bool = False
    """Overlapping windows have a state each, instead of sharing panes."""
    emit: EmitPolicy = field(default_factory=EmitPolicy)
    conditional: bool = False
    """The column `when` decides which rows trigger a window."""
    broadcast: bool = False
    """Triggers of sliding windows come to every shard as messages."""


@dataclass(frozen=True)
class WindowOperators:
    """The operators of a window kind."""

    keep_rows: Callable[[WindowSettings], Operator]
    """Keeps the rows of open windows and gives them as WindowRows when a window closes."""
    aggregate: Callable[[WindowSettings, Aggregator], list[Operator]] | None = None
    """Folds rows into accumulators as they come. None: the kind never does, see `WindowSpec.folding`."""


_KINDS: dict[type[WindowSpec], WindowOperators] = {}


def register(kind: type[WindowSpec], operators: WindowOperators) -> None:
    """Say which operators run the windows of a kind, and of the kinds derived from it."""
    _KINDS[kind] = operators


def row_operator(settings: WindowSettings) -> Operator:
    """The operator that keeps a window's rows until it closes."""
    return _operators(settings.spec).keep_rows(settings)


def aggregating_operators(settings: WindowSettings, aggregator: Aggregator) -> list[Operator]:
    """The operators that aggregate a window's rows as they come."""
    aggregate = _operators(settings.spec).aggregate
    if aggregate is None:
        raise InternalError("WINDOW_OPERATORS", f"{settings.spec} cannot be aggregated as rows come")
    return aggregate(settings, aggregator)


@dataclass(frozen=True)
class QuotaOperators:
    """The operators of a window with a quota whose rows are spread over shards by group."""

    request: RequestGroups
    admit: AdmitGroups
    aggregate: list[Operator]


def quota_operators(settings: WindowSettings, aggregator: Aggregator) -> QuotaOperators:
    """Operators of a window that all groups share."""
    plan = _aligned(settings)
    merging = MergeAggregation(plan, aggregator, settings.emit)
    return QuotaOperators(RequestGroups(plan), AdmitGroups(plan), [QuotaAggregation(plan, aggregator), merging])


def _operators(spec: WindowSpec) -> WindowOperators:
    found = next((_KINDS[kind] for kind in type(spec).__mro__ if kind in _KINDS), None)
    if found is None:
        raise InternalError("WINDOW_OPERATORS", f"no operators are registered for {spec}")
    return found


def _aligned(settings: WindowSettings) -> AlignedPlan:
    assert isinstance(settings.spec, AlignedSpec)
    return AlignedPlan(
        settings.spec,
        settings.keys,
        settings.allowed_lateness_us,
        max_groups=settings.max_groups,
        per_window=settings.per_window,
        closed_until_us=settings.closed_until_us,
        cut=settings.cut,
    )


def _aggregate_aligned(settings: WindowSettings, aggregator: Aggregator) -> list[Operator]:
    plan = _aligned(settings)
    return [PartialAggregation(plan, aggregator), MergeAggregation(plan, aggregator, settings.emit)]


def _session(settings: WindowSettings) -> SessionPlan:
    assert isinstance(settings.spec, Session)
    return SessionPlan(settings.spec, settings.keys, settings.allowed_lateness_us, settings.closed_until_us)


def _aggregate_sessions(settings: WindowSettings, aggregator: Aggregator) -> list[Operator]:
    plan = _session(settings)
    return [PartialSessionAggregation(plan, aggregator), MergeSessionAggregation(plan, aggregator, settings.emit)]


def _sliding_rows(settings: WindowSettings) -> Operator:
    assert isinstance(settings.spec, Sliding)
    return SlidingWindow(
        settings.spec,
        settings.partition_by,
        settings.keys,
        conditional=settings.conditional,
        broadcast=settings.broadcast,
        cut=settings.cut,
    )


def _aggregate_sliding(settings: WindowSettings, aggregator: Aggregator) -> list[Operator]:
    assert isinstance(settings.spec, Sliding)
    return [
        SlidingAggregation(
            settings.spec,
            settings.partition_by,
            settings.keys,
            aggregator,
            conditional=settings.conditional,
            cut=settings.cut,
        )
    ]


def _counted_rows(settings: WindowSettings) -> Operator:
    assert isinstance(settings.spec, Count)
    return CountWindow(settings.spec, settings.partition_by)


def _state_rows(settings: WindowSettings) -> Operator:
    assert isinstance(settings.spec, State)
    return StateWindow(settings.spec, settings.partition_by)


register(AlignedSpec, WindowOperators(lambda settings: AlignedRowWindow(_aligned(settings)), _aggregate_aligned))
register(Session, WindowOperators(lambda settings: SessionRowWindow(_session(settings)), _aggregate_sessions))
register(Sliding, WindowOperators(_sliding_rows, _aggregate_sliding))
register(Count, WindowOperators(_counted_rows))
register(State, WindowOperators(_state_rows))
