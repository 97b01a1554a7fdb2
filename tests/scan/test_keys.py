"""Keys of messages, decoded by a codec of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windowpane.config import parse_pipeline
from windowpane.core import columns as c
from windowpane.errors import ConfigError, WindowpaneError
from windowpane.plan.pipeline import source_schema
from windowpane.scan.codec import decode_keys
from windowpane.scan.json.codec import JsonCodec
from windowpane.scan.message_columns import KEY, PARTITION, VALUE
from windowpane.scan.messages import MessageReader
from windowpane.scan.string_values import StringCodec

STREAM = {"format": "kafka", "schema": "v BIGINT", "options": {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}}


def stream(**settings: Any) -> dict[str, Any]:
    options = {**STREAM["options"], **settings.pop("options", {})}  # type: ignore[dict-item]
    transform = {"sql": "SELECT count(*) AS n FROM t GROUP BY tumblingwindow('ss', 1)", "sink": "out"}
    return {
        "streams": {"t": {**STREAM, **settings, "options": options}},
        "transforms": {"q": transform},
        "sinks": {"out": {"format": "console"}},
    }


def test_records_with_bad_keys_are_bad_and_those_without_a_key_are_not() -> None:
    reader = MessageReader(
        stream="t",
        codec=JsonCodec(),
        columns=(("v", pa.int64()),),
        beside=(),
        several_topics=False,
        max_record_bytes=20,
        key_codec=JsonCodec(),
        key_columns=(("k", pa.int64()),),
    )
    keys = [b'{"k": 1}', None, b"{", b'{"k": "x"}', b'{"k":' + b" " * 20 + b"1}", b"{"]
    values = [b'{"v": 1}'] * 5 + [b"bad"]
    handed = pa.record_batch({VALUE: pa.array(values), KEY: pa.array(keys), PARTITION: pa.array([0] * 6, pa.int32())})
    (part,) = reader.read(iter([handed]))
    assert isinstance(part.content, pa.RecordBatch)
    assert part.content.select(reader.schema.names).schema.names == ["v", "k", c.SOURCE_PARTITION]
    assert part.content.column("k").to_pylist()[:2] == [1, None]
    assert part.content.column("v").to_pylist()[:5] == [1] * 5
    assert part.content.column(c.CORRUPT).to_pylist() == [
        None, None, "key: {", 'key: {"k": "x"}', f'key: longer than max_record_bytes (20): {{"k":{" " * 20}1}}', "bad",
    ]  # fmt: skip


def test_all_keys_or_none() -> None:
    schema = pa.schema([("k", pa.string())])
    decoded = decode_keys(StringCodec(), pa.array([b"a", b"b"]), schema, 99)
    assert decoded.columns.to_pylist() == [{"k": "a"}, {"k": "b"}]
    decoded = decode_keys(StringCodec(), pa.nulls(2, pa.binary()), schema, 99)
    assert (decoded.columns.to_pylist(), decoded.bad.null_count) == ([{"k": None}] * 2, 2)


def test_columns_of_keys_stand_behind_those_of_values(tmp_path: Path) -> None:
    (tmp_path / "k.avsc").write_text(json.dumps({"type": "record", "name": "K", "fields": []}))
    given = stream(key_format="avro", key_schema="k STRING", options={"key.schema_file": "k.avsc"})
    config = parse_pipeline(given, tmp_path)
    found = config.streams["t"]
    assert [column.name for column in source_schema(found) or () if not column.hidden] == ["v", "k"]
    assert found.key_options == {"schema_file": str(tmp_path / "k.avsc")}
    assert found.decoding_options == {}
    twice = parse_pipeline(stream(key_format="string", key_schema="v STRING"))
    with pytest.raises(WindowpaneError, match="v"):
        source_schema(twice.streams["t"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"key_format": "jsn", "key_schema": "k BIGINT"}, "not a codec for keys"),
        ({"key_format": "debezium-json", "key_schema": "k BIGINT"}, "not a codec for keys"),
        ({"key_format": "json"}, "has no `key_schema`"),
        ({"key_schema": "k BIGINT"}, "needs the key `key_format`"),
        ({"options": {"key.schema_file": "x"}}, "needs the key `key_format`"),
        ({"key_format": "json", "key_schema": "k BIGINT", "schema": None}, "has no `schema`"),
        ({"key_format": "avro", "key_schema": "k BIGINT"}, "`options.key.schema_file`, because its key_format is avro"),
        ({"key_format": "avro", "key_schema": "k BIGINT", "options": {"key.schema_file": "no"}}, "there is no file"),
        ({"key_format": "json", "key_schema": "k BIGINT", "format": "parquet", "path": "x"}, "has no message keys"),
    ],
)
def test_what_is_missing_or_wrong_is_named(given: dict[str, Any], told: str) -> None:
    whole = stream(**given)
    if given.get("schema", 1) is None:
        del whole["streams"]["t"]["schema"]
    with pytest.raises(ConfigError) as refused:
        parse_pipeline(whole)
    assert told in str(refused.value)
