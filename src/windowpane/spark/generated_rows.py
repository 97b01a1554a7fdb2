"""Several rows of one, by Spark: a row for each element of an array, or for each entry of a map."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

from windowpane.core import columns as c
from windowpane.errors import PlanError
from windowpane.plan import physical
from windowpane.plan.columns import quote
from windowpane.plan.guard import details, errors_where, types_of
from windowpane.spark.envelope import Envelope
from windowpane.spark.static_joins import BRANCH_ERROR, JOIN_DETAIL, JOIN_ERROR, KEEP
from windowpane.sql.query import Generator

_ELEMENTS, _AT, _ELEMENT, _KEY, _VALUE = "_elements", "_at", "_element", "_key", "_value"


def generated(source: DataFrame, node: physical.PhysicalGenerate) -> DataFrame:
    """A row without elements stays as a filtered row, with OUTER as a row; one whose elements fail as an error row."""
    generator = node.generator
    safe = Envelope.over(source, [generator.argument], types_of(node.known))
    error, live = errors_where(None, [generator.argument], safe), _live(source)
    value = safe.value(generator.argument)
    columns = [quote(name) for name in source.columns if name not in (JOIN_ERROR, JOIN_DETAIL)]
    columns.append(f"{f'CASE WHEN {live} THEN {value} END' if live else value} AS {_ELEMENTS}")
    if error is not None:
        why = {JOIN_ERROR: error, JOIN_DETAIL: details([generator.argument], safe) or "CAST(NULL AS STRING)"}
        columns += [_first(source, name, text, live) for name, text in why.items()]
    elif JOIN_ERROR in source.columns:
        columns += [JOIN_ERROR, JOIN_DETAIL]
    return _exploded(safe.frame.selectExpr(*columns), generator)


def _live(source: DataFrame) -> str:
    """Whether a row is neither bad nor dropped; empty if all rows are."""
    reasons = (c.CORRUPT, physical.TIME_ERROR, BRANCH_ERROR, JOIN_ERROR)
    parts = [f"{name} IS NULL" for name in reasons if name in source.columns]
    parts += [f"coalesce({KEEP}, TRUE)"] if KEEP in source.columns else []
    return " AND ".join(parts)


def _first(source: DataFrame, name: str, text: str, live: str) -> str:
    own = f"CASE WHEN {live} THEN {text} END" if live else text
    return f"coalesce({name}, {own}) AS {name}" if name in source.columns else f"{own} AS {name}"


def _exploded(frame: DataFrame, generator: Generator) -> DataFrame:
    kind = frame.schema[_ELEMENTS].dataType
    if not isinstance(kind, (ArrayType, MapType)):
        raise PlanError(
            "GENERATOR_ARGUMENT",
            f"`{generator.argument.text}` is of type {kind.simpleString().upper()}, not an array or a map",
        )
    names = f"{_AT}, {_KEY}, {_VALUE}" if isinstance(kind, MapType) else f"{_AT}, {_ELEMENT}"
    hidden = {_ELEMENTS, KEEP, c.MADE}
    own = [quote(name) for name in frame.columns if name not in hidden]
    exploded = frame.selectExpr("*", f"posexplode_outer({_ELEMENTS}) AS ({names})")
    values = [
        f"{text} AS {quote(column.name)}"
        for text, column in zip(_values(kind, generator), generator.values, strict=True)
    ]
    if generator.position is not None:
        name, first = generator.position
        values.append(f"{_AT}{f' + {first}' if first else ''} AS {quote(name)}")
    made = f"coalesce({_AT} > 0, FALSE)"
    values.append(f"{f'({c.MADE} OR {made})' if c.MADE in frame.columns else made} AS {c.MADE}")
    return exploded.selectExpr(*own, *values, *_kept(frame, generator))


def _values(kind: ArrayType | MapType, generator: Generator) -> list[str]:
    if isinstance(kind, MapType):
        return [_KEY, _VALUE]
    if not generator.fields:
        return [_ELEMENT]
    fields = kind.elementType.names if isinstance(kind.elementType, StructType) else []
    if len(fields) != len(generator.values):
        raise PlanError(
            "GENERATOR_COLUMNS",
            f"`{generator.argument.text}` has the fields {', '.join(fields) or '(none)'}, not {len(generator.values)}",
            "give as many names as there are fields",
        )
    return [f"{_ELEMENT}.{quote(name)}" for name in fields]


def _kept(frame: DataFrame, generator: Generator) -> list[str]:
    before = [f"coalesce({KEEP}, TRUE)"] if KEEP in frame.columns else []
    own = [] if generator.outer else [f"{_AT} IS NOT NULL"]
    return [f"{' AND '.join([*before, *own])} AS {KEEP}"] if before or own else []
