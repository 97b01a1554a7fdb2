"""The safe envelope: a row for which a Spark expression fails gets a reason, and no exception ends the query.

`try(named_struct('v', expr))` is NULL exactly where the evaluation of `expr` fails, whatever function or implicit cast
is to blame. The guards of `windowpane.sql` then only say why, for failed rows alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from windowpane.evaluation.reasons import EVALUATION_ERROR
from windowpane.plan.guard import guard_of, in_words
from windowpane.spark.python_functions import shielded
from windowpane.sql.query import Expr

_TRY, _ALWAYS = "windowpane_try", "spark_partition_id() >= 0"
_SAFE = frozenset(
    f"org.apache.spark.sql.catalyst.expressions.{name}"
    for name in (
        "AttributeReference", "Literal", "Alias", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual",
        "GreaterThan", "GreaterThanOrEqual", "And", "Or", "Not", "IsNull", "IsNotNull", "IsNaN", "In", "Coalesce", "If",
        "CaseWhen", "GetStructField", "Upper", "Lower", "Length", "StartsWith", "EndsWith", "Contains",
    )
)  # fmt: skip
"""Expressions that cannot fail, whatever the values of their operands: they need no envelope."""
_FLOAT_SAFE = frozenset(
    f"org.apache.spark.sql.catalyst.expressions.{name}" for name in ("Add", "Subtract", "Multiply", "UnaryMinus")
)
_CAST = "org.apache.spark.sql.catalyst.expressions.Cast"
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")


def install(spark: SparkSession) -> None:
    """Make catalyst's `TryEval` callable in the session's SQL. Doing it again changes nothing."""
    jvm: Any = spark._jvm  # noqa: SLF001  # catalyst has no Python API
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.TryEval")
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase
    built = registry.build(_TRY, jvm.scala.Option.empty(), jvm.scala.reflect.ClassTag.apply(kind))
    functions = spark._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001
    functions.createOrReplaceTempFunction(_TRY, built._2(), "scala_udf")  # noqa: SLF001  # a Scala pair


def held(text: str, column: str | None = None) -> str:
    """A struct whose `v` is the value of `text`; NULL where that fails.

    The optimizer must see a branch that may not be taken: it would compute constants, and subexpressions that several
    envelopes share, outside of them. Without the struct it would move the envelope into the branches of `text`, away
    from their conditions. `column`: any column, for places where the expression must be deterministic.
    """
    value = f"named_struct('v', {text})"
    if column is not None:
        return f"{_TRY}(CASE WHEN {column} IS NULL THEN {value} WHEN {column} IS NOT NULL THEN {value} END)"
    return f"{_TRY}(CASE WHEN {_ALWAYS} THEN {value} END)"


def tried(text: str, column: str | None = None) -> str:
    """An expression that is NULL where `text` is NULL or fails."""
    return f"{held(text, column)}.v"


def is_ansi(frame: DataFrame) -> bool:
    return frame.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"


def fallible(frame: DataFrame, texts: Sequence[str]) -> frozenset[str]:
    """Those of the expressions over `frame` that can fail, by what Spark makes of them, implicit casts included."""
    if not texts:
        return frozenset()
    named = [f"{text} AS _{number}" for number, text in enumerate(texts)]
    selected: Any = frame.selectExpr(*named)._jdf  # noqa: SLF001
    found = selected.queryExecution().analyzed().expressions()
    return frozenset(text for number, text in enumerate(texts) if _can_fail(found.apply(number)))


def _can_fail(expression: Any) -> bool:
    try:
        nodes = json.loads(expression.toJSON())
    except Py4JError:
        return True
    return not all(_is_safe(node, nodes[number + 1 : number + 2]) for number, node in enumerate(nodes))


def _is_safe(node: dict[str, Any], after: list[dict[str, Any]]) -> bool:
    """`after`: the node's first child, which follows it in the list."""
    if node["class"] in _SAFE:
        return True
    if not after:
        return False
    given = after[0].get("dataType")
    if node["class"] == _CAST:
        wanted = node.get("dataType")
        known = given in _NUMBERS and wanted in _NUMBERS and _NUMBERS.index(given) <= _NUMBERS.index(wanted)
        return known or (given is not None and given == wanted)
    return node["class"] in _FLOAT_SAFE and given in ("float", "double")


@dataclass(frozen=True)
class Envelope:
    """Expressions evaluated over `frame`, which has columns for their values and reasons beside its own."""

    frame: DataFrame
    slots: Mapping[str, int]
    ansi: bool

    @classmethod
    def over(
        cls,
        frame: DataFrame,
        exprs: Sequence[Expr],
        types: Mapping[str, str | None],
        risky: frozenset[str] | None = None,
    ) -> Envelope:
        """`risky`: the expressions that can fail, where that is known already."""
        ansi = is_ansi(frame)
        if risky is None:
            risky = risky_texts(frame, exprs, types)
        chosen = list({expr.text: expr for expr in exprs if expr.text in risky}.values())
        if not chosen:
            return cls(frame, {}, ansi)
        slots = {expr.text: number for number, expr in enumerate(chosen)}
        spark = frame.sparkSession
        structs = [held(shielded(spark, text, tried)) for text in slots]
        columns = [f"{struct} AS _try_{number}" for number, struct in enumerate(structs)]
        evaluated = frame.selectExpr("*", *columns)
        guards = [guard and shielded(spark, guard, tried) for guard in (guard_of(expr, types) for expr in chosen)]
        reasons = [_reason(number, guard, ansi=ansi) for number, guard in enumerate(guards)]
        return cls(evaluated.selectExpr("*", *reasons), slots, ansi)

    def value(self, expr: Expr) -> str:
        """The expression's value; NULL where it fails."""
        number = self.slots.get(expr.text)
        if number is None:
            return expr.text
        return f"_try_{number}.v" if self.ansi else f"CASE WHEN _why_{number} IS NULL THEN _try_{number}.v END"

    def why(self, expr: Expr) -> str | None:
        """NULL where the expression has a value, else the reason; None if it cannot fail."""
        number = self.slots.get(expr.text)
        return None if number is None else f"_why_{number}"

    def blamed(self, expr: Expr) -> str | None:
        """For people: which expression failed."""
        number = self.slots.get(expr.text)
        if number is None:
            return None
        return f"CASE WHEN _why_{number} IS NOT NULL THEN 'cannot compute {in_words(expr.text)}' END"


def risky_texts(frame: DataFrame, exprs: Sequence[Expr], types: Mapping[str, str | None]) -> frozenset[str]:
    """Expressions that need the envelope. Without ANSI mode Spark does not fail, but guards do say what is wrong."""
    texts = list(dict.fromkeys(expr.text for expr in exprs if expr.columns != (expr.text,)))
    risky = fallible(frame, texts)
    if is_ansi(frame):
        return risky
    return risky | {expr.text for expr in exprs if guard_of(expr, types) is not None}


def _reason(number: int, guard: str | None, *, ansi: bool) -> str:
    known = f"{tried(guard)}, " if guard else ""
    failed = f"_try_{number} IS NULL"
    if ansi or not guard:
        return f"CASE WHEN {failed} THEN coalesce({known}'{EVALUATION_ERROR}') END AS _why_{number}"
    return f"coalesce({known}CASE WHEN {failed} THEN '{EVALUATION_ERROR}' END) AS _why_{number}"
