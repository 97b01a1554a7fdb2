"""The shape of a plan: what of it the state in a checkpoint depends on, and the rest, as plain values that are stored.

`changes.py` compares the shape that a checkpoint was made with with that of the query that is to go on with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from windowpane.plan.build import Plan
from windowpane.plan.describe import describe_emit
from windowpane.plan.hand_over import looks_back_us, why_not_handed_over
from windowpane.plan.physical import PhysicalEventTime
from windowpane.plan.result_steps import step_name, step_properties
from windowpane.plan.stages import DedupeStage, InputStage, JoinStage, LeafStage, TimeStage
from windowpane.plan.traversal import walk
from windowpane.sql.query import BoundQuery, GroupKey, Window
from windowpane.sql.relation_text import relation_text, window_text

Names = tuple[tuple[str, str], ...]
"""Internal names (`_a0`), each with what it means (`count(*)`)."""
_INTERNAL = re.compile(r"\b_[akc]\d+\b")


@dataclass(frozen=True, kw_only=True)
class PlanShape:
    """A planned query, part by part. Texts are canonical, so that equal ones mean the same."""

    streams: tuple[str, ...]
    reads: tuple[str, ...] = ()
    """The streams in the order in which FROM reads them, once for each time."""
    relation: str
    """FROM, with the queries that it reads."""
    time: tuple[str, ...]
    """Where rows get their times from."""
    where: str = ""
    dedupe: str = ""
    window: str = ""
    keys: Names = ()
    aggregates: Names = ()
    carried: Names = ()
    """Columns of rows that are emitted."""
    max_groups: int | None = None
    kept_as: tuple[str, ...] = ()
    """How each window keeps its state."""
    foldable: bool = False
    """The state of the last window has a column of its own for each aggregate."""
    spans: tuple[str, ...] = ()
    """The windows of all levels that have a time, as clauses."""
    looks_back_us: int = 0
    """How far before the first of its windows the rows can be that the plan needs."""
    lags_us: tuple[int, ...] = ()
    lateness_us: tuple[int, ...] = ()
    """Of each window, from the one over the source."""
    late_rules: tuple[str, ...] = ()
    emit: str = ""
    outputs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """HAVING, QUALIFY, ORDER BY, LIMIT."""
    sinks: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    stays: str = ""
    """Why the plan cannot hand over its windows to another, nor have those of another from a cut on."""


def shape_of(plan: Plan) -> PlanShape:
    """The shape of a plan."""
    query, stages, last = plan.query, plan.stages, plan.stages.window
    named = dict((*_keys(query.keys), *_calls(query), *_keys(query.carried)))
    timed = stages.of(TimeStage)
    joins = bool(stages.of(JoinStage) or stages.of(LeafStage))
    spec = last.window.spec if last.window else None
    return PlanShape(
        streams=tuple(dict.fromkeys(stream.name for stream in query.source.relation.streams)),
        reads=tuple(stream.name for stream in query.source.relation.streams),
        relation=relation_text(query.relation),
        time=tuple(_times(plan)),
        where=query.where.text if query.where else "",
        dedupe="; ".join(_dedupes(plan)),
        window=_window(query.window),
        keys=_keys(query.keys),
        aggregates=_calls(query),
        carried=_keys(query.carried),
        max_groups=last.aggregation.max_groups if last.aggregation else None,
        kept_as=tuple(f"{each.name} {_kept(fused=each.fused, alone=each.per_window)}" for each in stages.windows),
        foldable=last.fused and spec is not None and spec.folding == "accumulators" and not joins,
        spans=tuple(_spans(query)),
        looks_back_us=looks_back_us(stages),
        lags_us=tuple(each.lag_us for each in timed),
        lateness_us=tuple(each.window.allowed_lateness_us if each.window else 0 for each in stages.windows),
        late_rules=tuple(each.late_rule for each in timed),
        emit=describe_emit(query.emit),
        outputs=tuple(f"{_spelled(each.expr.text, named)} AS {each.name}" for each in query.outputs),
        steps=tuple(f"{step_name(each)} {_spelled(str(step_properties(each)), named)}" for each in query.steps),
        sinks=stages.output.sinks,
        routes=tuple(route.describe() for route in stages.output.routes),
        stays=why_not_handed_over(plan),
    )


def _keys(keys: Iterable[GroupKey]) -> Names:
    return tuple((key.name, key.expr.text) for key in keys)


def _calls(query: BoundQuery) -> Names:
    """Each aggregate once: the planner computes equal ones once, under the first name."""
    first: dict[str, str] = {}
    for call in query.aggregates:
        first.setdefault(call.describe(), call.name)
    return tuple((name, text) for text, name in first.items())


def _spelled(text: str, named: Mapping[str, str]) -> str:
    """A text with the meaning of internal names in their place."""
    return _INTERNAL.sub(lambda found: named.get(found[0], found[0]), text)


def _times(plan: Plan) -> Iterator[str]:
    yield plan.timing.mode
    for stage in plan.stages.of(InputStage):
        for node in walk(stage.source):
            if isinstance(node, PhysicalEventTime):
                yield ", ".join(f"{step.origin} {step.text} {step.type} {step.on_failure}" for step in node.steps)


def _dedupes(plan: Plan) -> Iterator[str]:
    for stage in plan.stages.of(DedupeStage):
        yield f"{', '.join(use.label for use in stage.compared)} within {stage.within_us}"


def _window(window: Window | None) -> str:
    if window is None:
        return ""
    function, clause = window_text(window)
    return clause or ", ".join(function)


def _spans(query: BoundQuery) -> Iterator[str]:
    for inner in query.relation.queries:
        yield from _spans(inner)
    if query.window is not None and query.window.spec.parts and query.window.spec.shared_bounds:
        yield query.window.spec.clause()


def _kept(*, fused: bool, alone: bool) -> str:
    return ("accumulators" if fused else "rows") + (" by window" if alone else "")
