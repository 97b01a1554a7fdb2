"""A shard takes over its part of the state that operators have in another number of shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windowpane.core.graph import Graph
from windowpane.core.operators.base import Operator
from windowpane.core.rescaling import Owned, refused
from windowpane.core.state import EntryMap, Header, StateEntries
from windowpane.errors import InternalError


def take_over(graph: Graph, stored: Sequence[tuple[Graph, EntryMap]], owned: Owned, entries: EntryMap) -> None:
    """Give a new graph its part of the state of others, and save it in `entries`.

    `stored`: graphs of the same operators, new too, each with the entries of a shard.
    """
    for each, state in stored:
        each.load(state)
    for key, node in graph.keys().items():
        others = [each.keys()[key].operator for each, state in stored if state.of_operator(key).names()]
        if others:
            own = entries.of_operator(key)
            _take_part(node.operator, others, replace(owned, by=graph.routed_by(node)), own)
            node.operator.save(own)


def _take_part(operator: Operator, others: Sequence[Operator], owned: Owned, entries: StateEntries) -> None:
    has_entries = type(operator).save is not Operator.save
    if has_entries and type(operator).divided is Operator.divided:
        raise refused(f"{type(operator).__name__} does not support it")
    if operator.divided_by is not None:
        owned = replace(owned, by=operator.divided_by)
    if len({(each.clock_us, each.watermark_us) for each in others}) > 1:
        raise InternalError("RESCALE", f"shards disagree on the time at {type(operator).__name__}")
    headers = [each.header() for each in others]
    operator.clock_us, operator.watermark_us = others[0].clock_us, others[0].watermark_us
    # Tables of operators with entries describe the entries.
    tables = {} if has_entries else owned.tables(header.tables for header in headers)
    operator.load_header(Header(_one(headers, operator.shard_scalars), tables))
    for number, state in enumerate(operator.divided()):
        state.take_over([each.divided()[number] for each in others], owned, entries)
    for number, state in enumerate(operator.repeated()):
        state.take_over([others[0].repeated()[number]], None, entries)
    operator.on_taken_over()


def _one(headers: Sequence[Header], may_differ: Sequence[str]) -> dict[str, object]:
    scalars = [header.scalars for header in headers]
    return {name: _agreed(name, scalars, may_differ) for name in scalars[0]}


def _agreed(name: str, found: Sequence[Mapping[str, object]], may_differ: Sequence[str]) -> object:
    """What all shards know alike; of what they may know differently, the largest."""
    values = [each[name] for each in found]
    if name in may_differ:
        return max((value for value in values if isinstance(value, int)), default=None)
    if any(value != values[0] for value in values):
        raise InternalError("RESCALE", f"shards disagree on `{name}`: {values}")
    return values[0]
