"""`value_format = "pairs"`: values such as `k=a;v=1`. Workers decode them; Spark does not."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from windowpane.formats import CodecFormat
from windowpane.scan.decoded import Decoded


class PairsCodec:
    """One value at a time, as simple as a codec can be."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._separator = options.get("separator", ";")

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        pairs = [(value, self._row(value, schema)) for value in values.to_pylist()]
        columns = pa.RecordBatch.from_pylist([row or {} for _, row in pairs], schema=schema)
        texts = [None if row else value.decode("utf-8", "replace") for value, row in pairs]
        return Decoded(columns, pa.array(texts, pa.string()))

    def _row(self, value: bytes, schema: pa.Schema) -> dict[str, object] | None:
        try:
            found = dict(part.split("=", 1) for part in value.decode().split(self._separator))
            return {field.name: pa.scalar(found[field.name]).cast(field.type).as_py() for field in schema}
        except (ValueError, KeyError):
            return None


PAIRS = CodecFormat(
    "pairs",
    workers=PairsCodec,
    worker_types=frozenset({"BIGINT", "STRING"}),
    worker_options=frozenset({"separator"}),
)
