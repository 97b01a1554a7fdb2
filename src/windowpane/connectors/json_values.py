"""The JSON codec in Spark."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from windowpane.core import columns as c
from windowpane.formats.sources import JSON_DEFAULTS, with_defaults


def from_json(value: Column, schema: str, options: dict[str, str]) -> Column:
    """JSON objects, by Spark's `from_json`; NULL for text that is not UTF-8."""
    text = value.cast("string")
    corrupt = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": c.CORRUPT}
    return F.when(F.is_valid_utf8(text), F.from_json(text, schema, with_defaults(options, JSON_DEFAULTS) | corrupt))
