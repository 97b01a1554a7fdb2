"""JSON about results, as Spark SQL: the identity of an emission, and records of emissions that cannot be computed."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from windowpane.connectors.sinks import IDENTITY, WHOLE_JSON_SQL
from windowpane.core import columns as c
from windowpane.plan.stages import ResultStage
from windowpane.spark.unpacking import IDENTITY as UNPACKED_ID

REASON = "_reason"
"""The column with the reason why an emission cannot be computed."""
NO_TEXT = "CAST(NULL AS STRING)"
RECORD_JSON = """map('ignoreNullFields', 'false', 'timeZone', 'UTC',
 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")""".replace("\n", "")
"""How `to_json` writes a side record: times in UTC whatever the session's time zone."""


def identity_columns(stage: ResultStage, emitted: pa.Schema) -> list[str]:
    """The columns that identify the emission of each row."""
    values = (UNPACKED_ID, _canonical_key(stage, emitted), c.EPOCH, c.FINAL)
    return [f"{value} AS {name}" for value, name in zip(values, IDENTITY, strict=True)]


def error_record(
    stage: ResultStage, emitted: pa.Schema, *, plan_id: str, transform: str, clock: str, watermark: str
) -> str:
    """A record of an emission that cannot be computed for REASON. `clock` and `watermark` are SQL."""
    window = NO_TEXT
    if c.WINDOW_START in emitted.names:
        window = "named_struct('start', window_start, 'end', window_end)"
    fields = {
        "kind": "'error'", "reason": REASON, "event_time": NO_TEXT, "processing_time": clock,
        "watermark": watermark, "window": window, "group_key": _group_key(stage), "original_event": NO_TEXT,
        "error_detail": "'a column of the result, HAVING or ORDER BY cannot be computed'",
        "plan_id": f"'{plan_id}'", "shard": "CAST(NULL AS INT)", "transform": _literal(transform),
    }  # fmt: skip
    record = ", ".join(f"'{name}', {text}" for name, text in fields.items())
    return f"to_json(named_struct({record}), {RECORD_JSON})"


def _group_key(stage: ResultStage) -> str:
    if not stage.keys:
        return NO_TEXT
    return f"struct({', '.join(f'{key.name} AS `{key.label}`' for key in stage.keys)})"


def _canonical_key(stage: ResultStage, emitted: pa.Schema) -> str:
    """The group as JSON that does not depend on how the query is written, and differs between groups."""
    keys = zip(stage.keys, stage.key_texts, strict=True)
    parts = [f"{_one_zero(key.name, emitted)} AS {_quoted(text)}" for key, text in keys]
    return f"to_json(struct({', '.join(parts)}), {WHOLE_JSON_SQL})" if parts else "'{}'"


def _one_zero(key: str, emitted: pa.Schema) -> str:
    """-0.0 and 0.0 are one group, so they must be written the same."""
    kind = emitted.field(key).type
    return f"({key} + CAST(0 AS {from_arrow_type(kind).simpleString()}))" if pa.types.is_floating(kind) else key


def _quoted(text: str) -> str:
    """The text of an expression as a column name."""
    return f"`{text.replace('`', '')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
