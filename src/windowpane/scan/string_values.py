"""The codec for plain text: the whole value is one column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.errors import ConfigError
from windowpane.scan.bisecting import as_text, decode_by_parts
from windowpane.scan.codec_options import checked_options
from windowpane.scan.decoded import Decoded


@dataclass(frozen=True)
class StringCodec:
    """Text in UTF-8."""

    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_options("string", self.options, ())

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        if len(schema) != 1:
            raise ConfigError("BAD_VALUE", "value_format string gives one column, so `schema` has to declare one")

        def parse(part: pa.Array) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays([part.cast(pa.string())], names=schema.names)

        return decode_by_parts(values, schema, parse, as_text)
