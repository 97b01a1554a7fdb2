"""Static tables that are joined behind a join of streams: each is joined to the stream that its ON is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from windowpane.sql.binding.from_sources import FromSources
from windowpane.sql.binding.scope import Scope
from windowpane.sql.schema import Catalog
from windowpane.sql.syntax.statement import SelectStmt

if TYPE_CHECKING:
    from windowpane.sql.binding.relation import BoundRelation


def tables_of_streams(stmt: SelectStmt, catalog: Catalog) -> dict[int, list[exp.Join]]:
    """The joins with static tables that stand behind a join of streams, by the place in FROM of their stream.

    Before: FROM a JOIN b ON a.k = b.k JOIN names n ON n.id = b.w
    After:  FROM a JOIN (b JOIN names n ON n.id = b.w) ON a.k = b.k

    Both mean the same if each joined row has a row of that stream, so that nothing is NULL that ON could ask for.
    Joins for which this does not hold, and those that are about several streams, are left out.
    """
    sources = FromSources(stmt, catalog)
    owner, found, streams = {0: 0}, dict[int, list[exp.Join]](), list[int]()
    for place, join in enumerate(stmt.joins, 1):
        if isinstance(join.this, (exp.Unnest, exp.Lateral)):
            continue
        if not sources.is_static(join.this):
            owner[place] = place
            streams.append(place)
            continue
        owners = {owner.get(each) for each in _compared(sources, place, join)}
        if len(owners) > 1 or None in owners:
            continue
        stream = owners.pop() if owners else 0
        assert stream is not None
        if not _is_always_there(stmt.joins, stream, streams):
            continue
        owner[place] = stream
        if streams:
            found.setdefault(stream, []).append(join)
    return found


def _compared(sources: FromSources, place: int, join: exp.Join) -> set[int]:
    """The places in FROM before the join's own that ON or USING names; -1 for a column whose table is not certain."""
    found = {next(iter(sources.having(node.name, before=place)), -1) for node in join.args.get("using") or ()}
    for column in join.args["on"].find_all(exp.Column) if join.args.get("on") else ():
        found |= sources.owners(column) or {-1}
    return found - {place}


def _is_always_there(joins: Sequence[exp.Join], stream: int, streams: Sequence[int]) -> bool:
    """Whether all joined rows have a row of the stream at a place, after the joins of streams at the others."""
    own = str(joins[stream - 1].args.get("side") or "") if stream else ""
    later = [str(joins[place - 1].args.get("side") or "") for place in streams if place > stream]
    kinds = [str(joins[place - 1].args.get("kind") or "") for place in streams if place == stream]
    return (
        own in ("", "RIGHT") and not {"SEMI", "ANTI"}.intersection(kinds) and not {"RIGHT", "FULL"}.intersection(later)
    )


def in_order_of_from(stmt: SelectStmt, catalog: Catalog, bound: BoundRelation) -> BoundRelation:
    """FROM with its columns in the order in which the query names its tables, for `SELECT *`."""
    aliases = FromSources(stmt, catalog).aliases
    known = [each for each in bound.scope.sources if each.alias.lower() in aliases]
    if len(known) < len(bound.scope.sources):
        return bound
    ordered = sorted(bound.scope.sources, key=lambda each: aliases.index(each.alias.lower()))
    return replace(bound, scope=Scope(stmt.source, tuple(ordered)))
