"""What a codec does in the workers, and what all codecs share: values that are absent or too long are bad."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.errors import InternalError
from windowpane.scan.decoded import Decoded, bad, good, in_order, nulls

HEAD_BYTES, HEAD_CHARACTERS = 400, 100
"""How much of a record that is too long is kept."""
KEY_TEXT = "key: "
"""How the text of a record begins that is bad because of its key."""


class Codec(Protocol):
    """Decodes values of messages, or lines of files. Made on the driver from a stream's options, and pickled.

    Registered as `windowpane.formats.CodecFormat.workers`: a class that takes the options as a dict.
    """

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        """Columns of the schema. `values` are binary, without NULLs. A bad value must not spoil the others."""


def decode_values(codec: Codec, values: pa.Array, schema: pa.Schema, max_bytes: int) -> Decoded:
    """Decode values of which some may be NULL or longer than `max_bytes`: both are bad records."""
    unread = pc.or_(values.is_null(), pc.fill_null(pc.greater(pc.binary_length(values), max_bytes), False))
    if not pc.any(unread).as_py():
        return _checked(codec.decode(values, schema), len(values))
    at = unread.to_numpy(zero_copy_only=False)
    heads = pc.binary_slice(values.filter(unread), 0, HEAD_BYTES).to_pylist()
    texts = ["" if head is None else too_long(head, max_bytes) for head in heads]
    present = values.filter(pc.invert(unread))
    decoded = _checked(codec.decode(present, schema), len(present))
    return in_order(
        [(np.flatnonzero(~at), decoded), (np.flatnonzero(at), bad(pa.array(texts, pa.string()), schema))], schema
    )


def decode_keys(codec: Codec, keys: pa.Array, schema: pa.Schema, max_bytes: int) -> Decoded:
    """Decode keys. A message without a key is no bad record: its columns are NULL."""
    present = keys.is_valid()
    at = present.to_numpy(zero_copy_only=False)
    decoded = decode_values(codec, keys.filter(present), schema, max_bytes)
    texts = pc.binary_join_element_wise(pa.scalar(KEY_TEXT), decoded.bad, "")
    named = Decoded(decoded.columns, texts)
    if at.all():
        return named
    absent = good(nulls(int((~at).sum()), schema))
    return in_order([(np.flatnonzero(at), named), (np.flatnonzero(~at), absent)], schema)


def too_long(head: bytes, max_bytes: int) -> str:
    """The text of a record that is too long; `head` is its first HEAD_BYTES."""
    return f"longer than max_record_bytes ({max_bytes}): {head.decode('utf-8', 'replace')[:HEAD_CHARACTERS]}"


def _checked(decoded: Decoded, count: int) -> Decoded:
    """Rows that a codec leaves out would be lost without a trace."""
    rows = {len(decoded.bad), *([decoded.columns.num_rows] if decoded.columns.num_columns else [])}
    if rows != {count}:
        raise InternalError("CODEC_ROWS", f"a codec has decoded {count} values to {max(rows)} rows")
    return decoded
