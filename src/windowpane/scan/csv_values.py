"""The CSV codec: each value is one line, its fields are the declared columns in order."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from windowpane.errors import ConfigError
from windowpane.scan.bisecting import as_text, decode_by_parts
from windowpane.scan.codec_options import checked_options
from windowpane.scan.decoded import Decoded, in_order

SEPARATOR, NULL = "sep", "nullvalue"


@dataclass(frozen=True)
class CsvCodec:
    """Fields in double quotes may contain separators and line breaks. `nullValue`, by default nothing, is NULL."""

    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = checked_options("csv", self.options, (SEPARATOR, NULL))
        if len(given.get(SEPARATOR, ",")) != 1 or not given.get(SEPARATOR, ",").isascii():
            raise ConfigError("BAD_VALUE", "value_format csv: `sep` is not one ASCII character")

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        """Values with line breaks, or quotes that do not close, are read one by one: they could take in others."""
        quotes = pc.count_substring(values, '"').to_numpy()
        breaks = pc.match_substring_regex(values, "[\r\n]").to_numpy(zero_copy_only=False)
        empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        alone = (quotes % 2 == 1) | breaks | empty
        if not alone.any():
            return self._decoded(values, schema)
        together = np.flatnonzero(~alone)
        parts = [(together, self._decoded(values.take(pa.array(together)), schema))]
        parts += [(np.array([at]), self._decoded(values.slice(at, 1), schema)) for at in np.flatnonzero(alone)]
        return in_order(parts, schema)

    def _decoded(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        return decode_by_parts(values, schema, lambda part: self._parsed(part, schema), as_text)

    def _parsed(self, values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        if len(schema) > 1 and pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
            raise pa.ArrowInvalid("an empty line has no fields")
        given = {name.lower(): value for name, value in self.options.items()}
        lines = io.BytesIO(
            pc.binary_join(pa.array([values.to_pylist()], pa.list_(pa.binary())), b"\n")[0].as_py() + b"\n"
        )
        block = max(1 << 20, lines.getbuffer().nbytes + 1)
        read = pyarrow.csv.ReadOptions(column_names=schema.names, block_size=block, use_threads=False)
        parse = pyarrow.csv.ParseOptions(
            delimiter=given.get(SEPARATOR, ","), newlines_in_values=True, ignore_empty_lines=False
        )
        convert = pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[given.get(NULL, "")], strings_can_be_null=True,
            quoted_strings_can_be_null=False, true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        )  # fmt: skip
        found = pyarrow.csv.read_csv(lines, read, parse, convert).combine_chunks()
        return found.to_batches()[0]
