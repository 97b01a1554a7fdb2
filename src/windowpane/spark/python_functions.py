"""Python UDFs that raise: the session's UDFs, called through copies that give NULL for a row on which they raise.

Spark takes a Python UDF and its arguments out of the expression they stand in, so no envelope around the expression
catches their errors. A copy gives `array(value)`; the expression fails, inside its envelope, where that is NULL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from windowpane.errors import PlanError
from windowpane.spark.shielded_calls import ArrowCall, OfBatches, PandasCall, RowCall
from windowpane.sql import replace_calls
from windowpane.sql.builtins import known_functions

_PANDAS, _ARROW = PythonEvalType.SQL_SCALAR_PANDAS_UDF, PythonEvalType.SQL_SCALAR_ARROW_UDF
_COPIES: dict[int, tuple[int, Callable[[Any, DataType], Any]]] = {
    PythonEvalType.SQL_BATCHED_UDF: (PythonEvalType.SQL_BATCHED_UDF, RowCall),
    PythonEvalType.SQL_ARROW_BATCHED_UDF: (PythonEvalType.SQL_ARROW_BATCHED_UDF, RowCall),
    _PANDAS: (_PANDAS, PandasCall),
    _ARROW: (_ARROW, ArrowCall),
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF: (_PANDAS, lambda function, kind: PandasCall(OfBatches(function), kind)),
    PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF: (_ARROW, lambda function, kind: ArrowCall(OfBatches(function), kind)),
}
"""By kind of UDF, the kind of its copy and how that calls it."""
_CALLED = re.compile(r"`?(\w+)`?\s*\(")
_PLAIN = re.compile(r"`[^`]*`|[\w.]+|'[^'\\]*'")
"""Columns and literals: arguments that cannot fail."""

Tried = Callable[[str], str]


def shielded(spark: SparkSession, text: str, tried: Tried) -> str:
    """The expression with calls of Python UDFs that fail like any other function. `tried` makes an envelope.

    PlanError for a UDF whose errors cannot be caught: it would stop the query.
    """
    called = {name.lower() for name in _CALLED.findall(text)} - known_functions()
    copies = {name: copy for name in sorted(called) if (copy := _copy(spark, name)) is not None}
    if not copies:
        return text
    return replace_calls(text, {name: _call(name, copy, tried) for name, copy in copies.items()})


def _call(name: str, copy: str, tried: Tried) -> Callable[[list[str]], str]:
    def written(arguments: list[str]) -> str:
        values = [_value(argument) for argument in arguments]
        computable = "TRUE"
        if not all(_PLAIN.fullmatch(value) for value in values):
            computable = f"isnotnull({tried('struct(' + ', '.join(values) + ')')})"
            arguments = [
                argument if _PLAIN.fullmatch(value) else argument.removesuffix(value) + tried(value)
                for argument, value in zip(arguments, values, strict=True)
            ]
        called = f"{copy}({', '.join([computable, *arguments])})"
        return f"coalesce({called}, raise_error('{name} has failed'))[0]"

    return written


def _value(argument: str) -> str:
    """What a named argument is given: `x` of `name => x`."""
    return re.sub(r"^\w+ => ", "", argument)


@dataclass(frozen=True)
class _Registered:
    """A Python UDF of the session."""

    command: bytes
    eval_type: int
    deterministic: bool


def _copy(spark: SparkSession, name: str) -> str | None:
    """The name of the function's copy, made where it is missing; None if it is no Python UDF."""
    found = _registered(spark, name)
    if found is None:
        return None
    if found.eval_type not in _COPIES:
        raise _unsupported(name, "it is not a scalar function")
    copy = f"windowpane_{name}_{hashlib.sha256(found.command).hexdigest()[:12]}"
    if spark.catalog.functionExists(copy):
        return copy
    try:
        function, kind = cloudpickle.loads(found.command)
    except Exception as failed:  # a function that Spark ships apart, or that only the workers can read
        raise _unsupported(name, "the driver cannot unpickle it; it may be larger than 1 MiB") from failed
    eval_type, call = _COPIES[found.eval_type]
    made = UserDefinedFunction(
        call(function, kind), ArrayType(kind), name=copy, evalType=eval_type, deterministic=found.deterministic
    )
    spark._jsparkSession.udf().registerPython(copy, made._judf)  # noqa: SLF001
    return copy


def _unsupported(name: str, reason: str) -> PlanError:
    message = f"the Python UDF `{name}` cannot be used: {reason}, so a row on which it raises would stop the query"
    return PlanError("UNSUPPORTED_UDF", message, "register a small function of one row, or of pandas or Arrow columns")


def _registered(spark: SparkSession, name: str) -> _Registered | None:
    jvm: Any = spark._jvm  # noqa: SLF001  # catalyst has no Python API
    functions = spark._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001
    place = (jvm.scala.Option.apply(part) for part in ("session", "system"))
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, *place)
    info = functions.lookupFunction(identifier)
    if info.isEmpty() or info.get().getSource() != "python_udf":
        return None
    no_arguments = jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
    udf = functions.lookupFunctionBuilder(identifier).get().apply(no_arguments)
    if udf.getClass().getSimpleName() != "PythonUDF":
        return None
    command = bytes(udf.func().command().toArray(jvm.scala.reflect.ClassTag.Byte()))
    return _Registered(command, int(udf.evalType()), bool(udf.udfDeterministic()))
