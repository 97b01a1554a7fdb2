"""The JSON codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.scan.decoded import Decoded
from windowpane.scan.json.decoding import decode


@dataclass(frozen=True)
class JsonCodec:
    """JSON objects, decoded as Spark's `from_json` does with its default options."""

    options: Mapping[str, str] = field(default_factory=dict)

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        return decode(values, schema)
