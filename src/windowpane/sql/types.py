"""Spark's types by name: their canonical spelling, their parts, and their Arrow counterparts."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

SPELLINGS = {
    "BOOLEAN": "BOOLEAN", "BOOL": "BOOLEAN", "TINYINT": "TINYINT", "BYTE": "TINYINT", "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT", "INT": "INT", "INTEGER": "INT", "BIGINT": "BIGINT", "LONG": "BIGINT", "FLOAT": "FLOAT",
    "REAL": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "STRING", "VARCHAR": "STRING", "CHAR": "STRING",
    "CHARACTER": "STRING", "BINARY": "BINARY", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ", "DECIMAL": "DECIMAL", "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL", "VARIANT": "VARIANT", "ARRAY": "ARRAY", "MAP": "MAP", "STRUCT": "STRUCT",
}  # fmt: skip
"""Spark's spellings of types and the one used here."""

INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONAL = ("FLOAT", "DOUBLE")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")

_NODE_TYPES = {
    "TEXT": "STRING", "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "BINARY": "BINARY", "DATE": "DATE", "VARIANT": "VARIANT",
}  # fmt: skip

_ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"),
}  # fmt: skip
_SPARK = {arrow: name for name, arrow in _ARROW.items()}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def type_name(node: exp.Expr | None) -> str | None:
    """The canonical name of a type in a syntax tree (CAST's target); None for a type that Spark does not have."""
    if not isinstance(node, exp.DataType) or not isinstance(node.this, exp.DType):
        return None
    kind, parts = node.this.value, node.expressions
    if kind in _NODE_TYPES:
        return _NODE_TYPES[kind]
    if kind == "DECIMAL":
        given = [str(part.this.name) for part in parts if isinstance(part.this, exp.Literal)]
        if len(given) != len(parts) or len(given) > 2 or not all(size.isdigit() for size in given):
            return None
        return decimal(*([int(size) for size in given] or [10]))
    names = [type_name(part.args.get("kind") if isinstance(part, exp.ColumnDef) else part) for part in parts]
    known = [name for name in names if name is not None]
    if kind not in ("ARRAY", "MAP", "STRUCT") or len(known) != len(parts) or not parts:
        return None
    if kind == "STRUCT":
        known = [f"{quoted(part.name)}:{name}" for part, name in zip(parts, known, strict=True)]
    return f"{kind}<{','.join(known)}>"


def decimal(precision: int, scale: int = 0) -> str | None:
    """`DECIMAL(p,s)`, None where Spark has no such type."""
    return f"DECIMAL({precision},{scale})" if 0 < precision <= 38 and 0 <= scale <= precision else None


def decimal_parts(name: str | None) -> tuple[int, int] | None:
    """Precision and scale of a decimal or of the decimal an integer type fits in."""
    whole = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}.get(name or "")
    if whole is not None:
        return whole, 0
    match = _DECIMAL.fullmatch(name or "")
    return (int(match[1]), int(match[2])) if match else None


def quoted(name: str) -> str:
    """A name as SQL text: backticks only where they are needed."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def parts_of(name: str) -> list[str]:
    """The parts between `<` and `>`, split at the commas of that level."""
    inner, found, depth, start = name[name.index("<") + 1 : -1], [], 0, 0
    for position, char in enumerate(inner):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            found.append(inner[start:position])
            start = position + 1
    return [*found, inner[start:]]


def has_no_order(name: str | None) -> bool:
    """Whether values of a type cannot be sorted."""
    return name is not None and ("MAP<" in name or "VARIANT" in name)


def fields_of(name: str) -> dict[str, str]:
    """Field names (lower case) and types of a STRUCT."""
    return {field.lower(): kind for field, kind in field_types(name).items()}


def field_types(name: str) -> dict[str, str]:
    """Field names as they are written, and types of a STRUCT."""
    pairs = [re.match(r"(`(?:[^`]|``)*`|[^:]*):(.*)", part, re.DOTALL) for part in parts_of(name)]
    return {pair[1].strip("`"): pair[2] for pair in pairs if pair}


def to_arrow(name: str | None) -> pa.DataType | None:
    """The Arrow type that carries a Spark type; None where it is unknown."""
    if name is None:
        return None
    if name in _ARROW:
        return _ARROW[name]
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if not name.endswith(">"):
        return None
    if name.startswith("STRUCT<"):
        fields = [(field, to_arrow(kind)) for field, kind in fields_of(name).items()]
        return None if any(kind is None for _, kind in fields) else pa.struct(fields)
    inner = [to_arrow(part) for part in parts_of(name)]
    if any(part is None for part in inner):
        return None
    return pa.list_(inner[0]) if name.startswith("ARRAY<") else pa.map_(*inner)


def from_arrow(kind: pa.DataType) -> str | None:
    """The Spark type of an Arrow type; None if Spark has no such type."""
    if kind in _SPARK:
        return _SPARK[kind]
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    if pa.types.is_large_string(kind):
        return "STRING"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = from_arrow(kind.value_type)
        return f"ARRAY<{element}>" if element else None
    if pa.types.is_struct(kind):
        fields = [(field.name, from_arrow(field.type)) for field in kind]
        known = all(name for _, name in fields)
        return f"STRUCT<{','.join(f'{quoted(field)}:{name}' for field, name in fields)}>" if known else None
    return None


def no_event_time(text: str, kind: str | None) -> tuple[str, str] | None:
    """Message and hint if an expression of this type is no event time; None if it may be one."""
    if kind is None or kind in (*TIMES, "STRING"):
        return None
    message = f"the event time must be a timestamp, `{text}` is of type {kind}"
    return message, f"write timestamp_millis({text}) or timestamp_seconds({text})"
