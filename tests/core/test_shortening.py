"""Records that are cut fit, are JSON, follow the schema, and say what was cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from windowpane.core.shortening import shortened

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "side-record.schema.json").read_text(encoding="utf-8"))
RECORD: dict[str, Any] = {
    "kind": "error",
    "reason": "decode_error",
    "event_time": None,
    "processing_time": "2024-01-01T00:00:41.120000Z",
    "watermark": None,
    "window": None,
    "group_key": None,
    "original_event": None,
    "error_detail": None,
    "plan_id": "1f0c6e2ab3d94c55",
    "shard": 0,
    "transform": "hot",
}
LONG = {
    "plain": "x" * 5000,
    "quotes": '"\\' * 3000,
    "accents": "ü" * 5000,
    "emoji": "\U0001f600" * 5000,
    "nul": "\x00" * 5000,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("max_bytes", [1_000, 4_000])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_cut_record_fits_and_says_so(name: str, max_bytes: int, ensure_ascii: bool) -> None:
    long = LONG[name]
    for change, cut in (
        ({"original_event": {"v": long, "w": [1]}}, ["original_event"]),
        ({"group_key": {"k": long}}, ["group_key"]),
        ({"error_detail": long}, ["error_detail"]),
        (
            {"original_event": {"v": long}, "group_key": {"k": long}, "error_detail": long},
            ["original_event", "group_key", "error_detail"],
        ),
        ({"original_event": {"v": long}, "group_key": {"k": 7}}, ["original_event"]),
    ):
        text = shortened(json.dumps(RECORD | change, ensure_ascii=ensure_ascii), max_bytes)
        assert len(text.encode()) <= max_bytes
        record = json.loads(text)
        jsonschema.Draft202012Validator(SCHEMA).validate(record)
        assert record["truncated"] == cut
        kept = RECORD | change | {each: record[each] for each in cut}
        assert record == kept | {"truncated": cut}


def test_a_record_that_fits_is_left_as_it_is() -> None:
    text = json.dumps(RECORD | {"original_event": {"v": "ü" * 300}}, ensure_ascii=False)
    assert shortened(text, None) == text
    assert shortened(text, len(text.encode())) == text
    assert "truncated" in shortened(text, len(text.encode()) - 1)
