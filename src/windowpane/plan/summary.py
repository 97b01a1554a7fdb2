"""What a plan will do, in words: a few labelled lines for `windowpane check`."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.plan.build import Plan
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.node_fields import SideRoute
from windowpane.plan.physical import PhysicalDataSource, PhysicalEventTime
from windowpane.plan.result_steps import step_words
from windowpane.plan.stages import DedupeStage, InputStage
from windowpane.plan.traversal import walk
from windowpane.sql.query import BoundQuery, Emit, Expr, Generator, Relation, StaticJoin
from windowpane.time import format_duration


def summarize(plan: Plan) -> dict[str, str]:
    """Label and sentence, in the order in which a row meets them. A label that has nothing to say is left out."""
    source = plan.query.source
    lines = {
        "reads": _reads(plan),
        "time": _time(plan),
        "watermark": _watermark(plan),
        "joins": _joins(source),
        "unites": _unites(source),
        "keeps": f"rows where {_as_written(source.where, source)}" if source.where else "",
        "dedupes": _dedupes(plan),
        "window": _window(source),
        "over its results": "; ".join(_over_results(plan.query)),
        "groups": _groups(plan),
        "computes": _computes(plan.query),
        "emits": _emits(plan.query),
        "results": _results(plan),
        **dict(_side(plan)),
    }
    return {label: text for label, text in lines.items() if text}


def _reads(plan: Plan) -> str:
    nodes = [node for stage in plan.stages.of(InputStage) for node in walk(stage.source)]
    sources = [node for node in nodes if isinstance(node, PhysicalDataSource)]
    streams = [f"stream {node.stream}" + (f" ({node.format})" if node.format else "") for node in sources]
    joins = [
        f"a row per element of {join.argument.text}"
        if isinstance(join, Generator)
        else f"joined with table {join.table}"
        for join in (*_tables_of_branches(plan.query.source.relation), *plan.query.source.relation.joins)
    ]
    through = [f"through transform {name}" for name in plan.query.transforms]
    return ", ".join([" and ".join(streams), *joins, *through])


def _tables_of_branches(relation: Relation) -> list[StaticJoin]:
    """The static tables that one stream of a join is joined with."""
    return [table for branch in relation.branches if branch.joined for table in branch.joined.tables]


def _time(plan: Plan) -> str:
    if plan.timing.mode == "processing_time":
        return "processing time: when a row's micro-batch started"
    nodes = [node for stage in plan.stages.of(InputStage) for node in walk(stage.source)]
    timed = [node for node in nodes if isinstance(node, PhysicalEventTime)]
    chains = [", else ".join(_step(step) for step in node.steps) for node in timed]
    return "event time: " + "; ".join(dict.fromkeys(chains))


def _step(step: TimeStep) -> str:
    if step.origin == "processing_time":
        return "processing time"
    if step.origin == "source":
        return "the source's own timestamp"
    strict = " (unreadable: error row)" if step.on_failure == "error" else ""
    return f"{step.text} as {step.type}{strict}"


def _watermark(plan: Plan) -> str:
    timing = plan.timing
    if timing.mode == "processing_time":
        return ""
    behind = f"{format_duration(timing.lag_us)} behind" if timing.lag_us else "at"
    parts = [f"{behind} the latest event time"]
    source = plan.query.source
    if source.relation.stream_join is None and (source.window is None or timing.ordered):
        parts.append("rows are released in time order")
    if timing.allowed_lateness_us:
        parts.append(f"windows accept rows until {format_duration(timing.allowed_lateness_us)} after their end")
    if timing.idle_timeout_us is not None:
        parts.append(f"a partition silent for {format_duration(timing.idle_timeout_us)} does not hold it back")
    return ", ".join(parts)


def _joins(query: BoundQuery) -> str:
    join = query.relation.stream_join
    if join is None:
        return ""
    below = [_joins(inner) or f"results of the window {_window(inner)}" for inner in query.relation.queries]
    on = " and ".join([*join.labels, *(_as_written(condition, query) for condition in join.conditions)])
    where = "rows of the same window" if query.window else "rows"
    return "; then ".join([*below, f"{where} where {on} ({join.kind} join)"])


def _unites(query: BoundQuery) -> str:
    """The branches of a UNION ALL of which some are results."""
    if query.relation.stream_join is not None or not query.relation.queries:
        return ""
    return "; ".join(
        f"rows of {branch.stream.name}" if branch.query is None else f"results of {_of_results(branch.query)}"
        for branch in query.relation.branches
    )


def _of_results(query: BoundQuery) -> str:
    inner = query.source
    read = " and ".join(stream.name for stream in inner.relation.streams)
    return f"{read} ({_window(query)})"


def _as_written(expr: Expr, query: BoundQuery) -> str:
    """An expression in the user's words if it is over joined streams: there, columns have internal names."""
    if query.relation.stream_join is None or expr.span is None:
        return expr.text
    return " ".join(query.text[expr.span.start : expr.span.end].split())


def _dedupes(plan: Plan) -> str:
    stages = plan.stages.of(DedupeStage)
    labels = [", ".join(use.label for use in stage.compared) for stage in stages]
    horizons = [format_duration(stage.within_us) for stage in stages]
    return "; ".join(f"by {names} within {horizon}" for names, horizon in zip(labels, horizons, strict=True))


def _window(query: BoundQuery) -> str:
    if query.window is None:
        return "none: each row separately"
    partition = ", ".join(expr.text for expr in query.window.partition_by)
    when = f", triggered where {query.window.when.text}" if query.window.when else ""
    return query.window.spec.words() + when + (f", for each {partition}" if partition else "")


def _over_results(query: BoundQuery) -> list[str]:
    """The windows over the results of other windows, and what they keep of them."""
    if query.relation.query is None:
        return []
    kept = f", where {query.where.text}" if query.where else ""
    return [*_over_results(query.relation.query), _window(query) + kept]


def _groups(plan: Plan) -> str:
    aggregation = plan.stages.window.aggregation
    if aggregation is None:
        return ""
    limit = f", at most {aggregation.max_groups:,} per window" if aggregation.max_groups is not None else ""
    names = ", ".join(use.label for use in aggregation.keys)
    return names + limit if names else "all rows of a window together"


def _computes(query: BoundQuery) -> str:
    names = ", ".join(output.name for output in query.outputs)
    return names + "".join(map(step_words, query.steps))


def _emits(query: BoundQuery) -> str:
    if query.kind == "plain" and query.relation.stream_join is not None:
        return "each pair as soon as both rows have come"
    if query.kind == "plain":
        return "each row when the watermark passes it"
    what = "the window's rows" if query.kind == "rows" else "one row per group"
    emitted = query.window.spec.emitted() if query.window else None
    if emitted is not None:
        return f"{what}, {emitted}"
    return _emits_at(query.emit, what)


def _emits_at(emit: Emit, what: str) -> str:
    if emit.mode == "close":
        return f"{what}, when the window closes"
    often = f", at most every {format_duration(emit.every_us)}" if emit.every_us is not None else ""
    return f"{what} whenever a micro-batch changes it{often}, and a final one when the window closes"


def _results(plan: Plan) -> str:
    sinks = plan.stages.output.sinks
    return f"to {', '.join(sinks)}" if sinks else ""


def _side(plan: Plan) -> Iterator[tuple[str, str]]:
    """The routes of the kinds that can occur."""
    aggregation = plan.stages.window.aggregation
    possible = {
        "late": plan.timing.mode == "event_time",
        "evicted": aggregation is not None and aggregation.max_groups is not None,
        "duplicate": bool(plan.stages.of(DedupeStage)),
    }
    for route in plan.stages.output.routes:
        if possible.get(route.kind, True):
            yield f"{route.kind} rows", _route(route)


def _route(route: SideRoute) -> str:
    if route.target == "reinject":
        return f"reinjected, at most {route.max_reinjections} times, then {_end(route.then, route)}"
    return _end(route.target, route)


def _end(target: str, route: SideRoute) -> str:
    if target == "metrics_only":
        return "counted, not kept"
    return f"to {target}" + (", with the original row" if route.include_original else "")
