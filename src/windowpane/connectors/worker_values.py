"""Codecs of the workers inside Spark's own plan, where a query does not allow the columnar scan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from windowpane.core import columns as c
from windowpane.formats import CODECS, load
from windowpane.scan.codec import Codec, decode_values
from windowpane.sql import parse_schema
from windowpane.sql.types import to_arrow

_NO_LIMIT = 1 << 31
"""Longer values are refused around this."""


def _decoded(name: str, value: Column, schema: str, options: dict[str, str]) -> Column:
    """A struct of the schema, whose last column is CORRUPT."""
    format_ = CODECS.find(name)
    assert format_ is not None
    codec: Codec = load(format_.workers)(options)
    declared = [column for column in parse_schema(schema) if column.name != c.CORRUPT]
    typed = pa.schema([(column.name, to_arrow(column.type)) for column in declared])
    make: Any = arrow_udf  # its types ask for a kind of function that it finds out itself
    found: Column = make(_udf(codec, typed), returnType=f"struct<{_fields(schema)}>")(value.cast("binary"))
    return found


def _udf(codec: Codec, schema: pa.Schema) -> Callable[[pa.Array], pa.Array]:
    def decode(values: pa.Array) -> pa.Array:
        decoded = decode_values(codec, values, schema, _NO_LIMIT)
        arrays = [*decoded.columns.columns, decoded.bad]
        return pa.StructArray.from_arrays(arrays, fields=[*schema, pa.field(c.CORRUPT, pa.string())])

    # Spark tells by the annotations what to pass, and reads them as text otherwise.
    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return decode


def _fields(schema: str) -> str:
    return ", ".join(f"`{column.name}`: {column.type}" for column in parse_schema(schema))


avro = partial(_decoded, "avro")
protobuf = partial(_decoded, "protobuf")
string = partial(_decoded, "string")
csv = partial(_decoded, "csv")
debezium_json = partial(_decoded, "debezium-json")
