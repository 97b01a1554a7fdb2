"""Which Arrow types an aggregate takes, and the error that says so in Spark's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from windowpane.core.physical import numpy_dtype
from windowpane.errors import PlanError

TypeTest: TypeAlias = Callable[[pa.DataType], bool]

_SPARK_NAMES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "large_string": "STRING",
    "binary": "BINARY",
    "large_binary": "BINARY",
    "date32[day]": "DATE",
    "null": "VOID",
}


def spark_name(type_: pa.DataType) -> str:
    """The type as a user of Spark SQL knows it.

    >>> spark_name(pa.list_(pa.decimal128(10, 2)))
    'ARRAY<DECIMAL(10,2)>'
    """
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    if pa.types.is_list(type_):
        return f"ARRAY<{spark_name(type_.value_type)}>"
    return _SPARK_NAMES.get(str(type_), str(type_).upper())


def require(function: str, type_: pa.DataType, test: TypeTest, valid: str) -> None:
    """Raise PlanError AGGREGATE_TYPE unless the type passes; `valid` names what would."""
    if not test(type_):
        raise PlanError(
            "AGGREGATE_TYPE", f"`{function}` does not take a value of type {spark_name(type_)}", f"it takes {valid}"
        )


def is_integer(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_))


def is_float(type_: pa.DataType) -> bool:
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))


def is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal32(type_) or pa.types.is_decimal64(type_) or pa.types.is_decimal128(type_))


def is_numeric(type_: pa.DataType) -> bool:
    return is_integer(type_) or is_float(type_) or is_decimal(type_)


def is_boolean(type_: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(type_))


def is_text(type_: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(type_) for test in tests)


def is_orderable(type_: pa.DataType) -> bool:
    """Has a total order that `ordering` knows."""
    if pa.types.is_null(type_):
        return False
    return numpy_dtype(type_) is not None or is_decimal(type_) or is_text(type_)


NUMERIC = "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE or DECIMAL"
ORDERABLE = f"{NUMERIC}, STRING, BINARY, BOOLEAN, DATE or TIMESTAMP"
