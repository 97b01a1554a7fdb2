"""Settings of transforms that are read by name: which of them apply where a query reads such a transform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windowpane.config import REINJECT, Transform
from windowpane.plan.context import PlanContext
from windowpane.sql.query import BoundQuery

_OF_SOURCE = {
    "event_time_field": "event_time_field",
    "watermark_lag_us": "watermark_lag",
    "allowed_lateness_us": "allowed_lateness",
    "dedupe": "dedupe",
}
"""Settings that concern the rows of streams: fields and keys."""


def with_owners_settings(context: PlanContext) -> PlanContext:
    """The context of one query, with the settings of the transforms whose texts it is made of."""
    owners = context.bound.owners
    if owners == ("",):
        return context
    settings = {name: _settings(context, name) for name in owners}
    chosen = {field: _chosen(context, settings, field) for field in _OF_SOURCE}
    return replace(context, transform=context.transform.model_copy(update=chosen))


def _settings(context: PlanContext, name: str) -> Transform:
    return context.others[name] if name else context.transform


def _chosen(context: PlanContext, settings: dict[str, Transform], field: str) -> object:
    """The value of a setting; two that differ cannot both apply to the same rows."""
    found = {name: value for name, each in settings.items() if (value := getattr(each, field)) is not None}
    if len({repr(value) for value in found.values()}) > 1:
        named = " and ".join(f"`{name or context.name}`" for name in found)
        raise context.error(
            "TRANSFORM_SETTINGS",
            f"{named} read the same rows of a stream and set `{_OF_SOURCE[field]}` differently",
            "set it in one of them only, or to the same value",
            key=f"transforms.{next(reversed(found)) or context.name}.{_OF_SOURCE[field]}",
        )
    return next(iter(found.values()), None)


def check_read_transforms(context: PlanContext) -> None:
    """Refuse settings that would not apply: of a transform that is read by name, and of the one that reads it."""
    levels = list(_queries(context.bound))
    for name in dict.fromkeys(name for query in levels for name in query.owners if name):
        _check_read(context, name)
    if all("" in query.owners for query in levels if _reads_streams(query)):
        return
    for field, key in _OF_SOURCE.items():
        if getattr(context.transform, field) is not None:
            read = ", ".join(f"`{name}`" for name in context.bound.transforms)
            raise context.error(
                "TRANSFORM_SETTINGS",
                f"`{key}` concerns rows of streams, and this transform reads the results of {read}",
                f"set it in {read}, or write WATERMARK (…) or WINDOW … ON … in the query",
                key=context.own_key(key),
            )


def _check_read(context: PlanContext, name: str) -> None:
    other = context.others[name]
    routes = other.side_output.routes()
    reinjected = next((kind for kind, route in routes.items() if route.sink == REINJECT), None)
    merged = any(name in query.owners and len(query.owners) > 1 for query in _queries(context.bound))
    if other.limits.max_groups is not None:
        key, why = "limits.max_groups", "a limit of groups applies to the last window of a transform only"
    elif reinjected is not None:
        key, why = f"side_output.{reinjected}.sink", "rows that return to it would not return to its readers"
    elif other.dedupe is not None and (merged or context.joins_results):
        key, why = "dedupe", "its rows are deduplicated for itself, and not where another query reads it"
    else:
        return
    raise context.error(
        "TRANSFORM_SETTINGS",
        f"`{context.name}` cannot read transform `{name}`, which has `{key}`: {why}",
        f"remove it from `{name}`, or read the stream instead",
        key=f"transforms.{name}.{key}",
    )


def _queries(bound: BoundQuery) -> Iterator[BoundQuery]:
    """A query and those whose results it reads."""
    yield bound
    for query in bound.relation.queries:
        yield from _queries(query)


def _reads_streams(query: BoundQuery) -> bool:
    relation = query.relation
    if relation.branches:
        return any(branch.query is None for branch in relation.branches)
    return relation.query is None
