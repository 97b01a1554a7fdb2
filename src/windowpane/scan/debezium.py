"""The codec for change events of Debezium in JSON: each event is a row, with what happened to it in `op`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.bisecting import as_text, decode_by_parts
from windowpane.scan.codec_options import checked_options
from windowpane.scan.decoded import Decoded
from windowpane.scan.json.arrow_parser import by_arrow
from windowpane.scan.json.decoding import decode

OP, AT = "op", "ts_ms"
_ENVELOPE = pa.schema([
    ("payload", pa.string()), ("before", pa.string()), ("after", pa.string()), (OP, pa.string()), (AT, pa.int64()),
])  # fmt: skip
_OPS = pa.array(["c", "r", "u", "d"])
_NONE = pa.scalar(None, pa.string())


@dataclass(frozen=True)
class DebeziumJsonCodec:
    """Columns are those of `after`, or of `before` where a row was deleted, and `op` and `ts_ms` of the event."""

    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_options("debezium-json", self.options, ())

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        return decode_by_parts(
            values, schema, lambda part: _parsed(part, schema), as_text, lambda part: _one(part, schema)
        )


def _own(schema: pa.Schema) -> pa.Schema:
    """The columns of the table."""
    return pa.schema([column for column in schema if column.name not in (OP, AT)])


def _parsed(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """Events that Arrow parses at once. ValueError if one may be bad."""
    row = pa.struct(list(_own(schema)))
    fields = [pa.field("before", row), pa.field("after", row), pa.field(OP, pa.string()), pa.field(AT, pa.int64())]
    found = by_arrow(values, pa.schema([("payload", pa.struct(fields)), *fields]))
    if found is None:
        raise pa.ArrowInvalid("not all are change events")
    inner = dict(zip([each.name for each in fields], found.column("payload").flatten(), strict=True))
    wrapped = found.column("payload").is_valid()
    event = {name: pc.if_else(wrapped, inner[name], found.column(name)) for name in inner}
    image = pc.if_else(pc.equal(event[OP], "d"), event["before"], event["after"])
    if image.null_count or not pc.all(pc.is_in(event[OP], _OPS)).as_py():
        raise pa.ArrowInvalid("not all have a known op and a row")
    names = [each.name for each in row]
    columns = {OP: event[OP], AT: event[AT]} | dict(zip(names, image.flatten() if names else (), strict=True))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names})


def _one(values: pa.Array, schema: pa.Schema) -> Decoded:
    """Events one by one, with the rules of the JSON codec."""
    event, own = _event(values), _own(schema)
    is_known = pc.and_(pc.fill_null(pc.is_in(event.columns.column(OP), _OPS), False), event.bad.is_null())
    deleted = pc.equal(event.columns.column(OP), "d")
    image = pc.if_else(pc.fill_null(deleted, False), event.columns.column("before"), event.columns.column("after"))
    rows = decode(pc.fill_null(image, "").cast(pa.binary()), own)
    columns = {name: rows.columns.column(name) for name in own.names}
    columns |= {name: event.columns.column(name) for name in (OP, AT)}
    is_bad = pc.or_(rows.bad.is_valid(), pc.invert(is_known))
    arrays = [pc.if_else(is_known, columns[each.name].cast(each.type), pa.scalar(None, each.type)) for each in schema]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), pc.if_else(is_bad, as_text(values), _NONE))


def _event(values: pa.Array) -> Decoded:
    """The fields of the events. With schemas enabled, an event is in the field `payload`."""
    outer = decode(values, _ENVELOPE)
    inside = outer.columns.column("payload")
    if inside.null_count == len(inside):
        return outer
    whole = pc.if_else(inside.is_valid(), inside.cast(pa.binary()), values.cast(pa.binary()))
    return decode(whole, _ENVELOPE)
