"""The codec for change events of Debezium in JSON: each event is a row, with what happened to it in `op`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.bisecting import as_text
from windowpane.scan.codec_options import checked_options
from windowpane.scan.decoded import Decoded
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
        event = _event(values)
        is_known = pc.and_(pc.is_in(event.columns.column(OP), _OPS), event.bad.is_null())
        deleted = pc.equal(event.columns.column(OP), "d")
        image = pc.if_else(pc.fill_null(deleted, False), event.columns.column("before"), event.columns.column("after"))
        own = pa.schema([column for column in schema if column.name not in (OP, AT)])
        rows = decode(pc.fill_null(image, "").cast(pa.binary()), own)
        columns = {name: rows.columns.column(name) for name in own.names}
        columns |= {
            name: event.columns.column(name).cast(schema.field(name).type) for name in (OP, AT) if name in schema.names
        }
        is_bad = pc.or_(rows.bad.is_valid(), pc.invert(is_known))
        arrays = [pc.if_else(pc.invert(is_known), pa.scalar(None, each.type), columns[each.name]) for each in schema]
        texts = (
            pc.if_else(is_bad, as_text(values), _NONE) if pc.any(is_bad).as_py() else pa.nulls(len(values), pa.string())
        )
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), texts)


def _event(values: pa.Array) -> Decoded:
    """The fields of the events. With schemas enabled, an event is in the field `payload`."""
    outer = decode(values, _ENVELOPE)
    inside = outer.columns.column("payload")
    if inside.null_count == len(inside):
        return outer
    whole = pc.if_else(inside.is_valid(), inside.cast(pa.binary()), values.cast(pa.binary()))
    return decode(whole, _ENVELOPE)
