"""The columns of one transform among those that a job reads.

A record of an untyped file, such as a line of JSON, is bad because of a column only for transforms that read it. A
reader of all columns calls more records bad, so these are decoded again with the columns of each transform.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.scan.codec import Codec
from windowpane.scan.csv.lines import CsvLines
from windowpane.scan.files import FOLDERS

_REPLACED = "\N{REPLACEMENT CHARACTER}"
"""In the text of a record that is not UTF-8, which is bad whatever columns are read."""


def own_columns(
    source: pa.RecordBatch, schema: pa.Schema, others: Sequence[str], codec: Codec | None
) -> tuple[pa.RecordBatch, bool]:
    """Rows with the columns of `schema`, without `others`, and whether other rows are bad than before.

    `codec`: decodes the text of a record; None if a record is bad whatever columns are read.
    """
    if not others:
        return source, False
    own = source.drop_columns(others)
    if codec is None or c.CORRUPT not in source.schema.names:
        return own, False
    named = (source.schema.metadata or {}).get(FOLDERS, b"").decode()
    if named and isinstance(codec, CsvLines):
        codec = codec.without(named.split(","))
    return _decoded_again(own, schema, codec)


def _decoded_again(rows: pa.RecordBatch, schema: pa.Schema, codec: Codec) -> tuple[pa.RecordBatch, bool]:
    texts = rows.column(c.CORRUPT)
    doubtful = pc.fill_null(pc.invert(pc.match_substring(texts, _REPLACED)), False)
    if not pc.any(doubtful).as_py():
        return rows, False
    decoded = codec.decode(texts.filter(doubtful).cast(pa.binary()), schema)
    good = decoded.bad.is_null()
    if not pc.any(good).as_py():
        return rows, False
    at = pc.replace_with_mask(doubtful, doubtful, good)
    columns = {name: rows.column(name) for name in rows.schema.names}
    for name in schema.names:
        # A bad record has no values but those that its folders name, which override its own.
        found = pc.coalesce(columns[name].filter(at), decoded.columns.column(name).filter(good))
        columns[name] = pc.replace_with_mask(columns[name], at, found)
    columns[c.CORRUPT] = pc.if_else(at, pa.scalar(None, texts.type), texts)
    return pa.RecordBatch.from_pydict(columns), True
