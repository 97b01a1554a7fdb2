"""What a side record tells of a bad row: without `include_original` nothing of its content."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windowpane.core import columns as c
from windowpane.core.side import SHOWN, shown_details, side_batch
from windowpane.core.side_records import to_records

SECRET = "name: Ada\nis 4711, which is no time"
DETAILS = [
    ("decode_error", SECRET * 20, "the record cannot be read"),
    ("event_time_parse", f"ts is {SECRET}, which is no unixtimestamp_ms", "ts is no unixtimestamp_ms"),
    ("event_time_null", "ts is NULL", "ts is NULL"),
    ("division_by_zero", "cannot compute a / b", "cannot compute a / b"),
    ("overflow", None, None),
]


def bad_rows() -> pa.RecordBatch:
    rows = pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array([None] * len(DETAILS), pa.int64())})
    reasons, details = (pa.array([row[index] for row in DETAILS], pa.string()) for index in (0, 1))
    return side_batch("error", reasons, rows, clock_us=0, watermark_us=None, detail=details)


def test_without_the_original_no_detail_has_content_of_the_row() -> None:
    found = shown_details(bad_rows(), originals=False).column("error_detail").to_pylist()
    assert found == [shown for _, _, shown in DETAILS]


def test_with_the_original_a_record_is_cut_and_the_rest_stays() -> None:
    found = shown_details(bad_rows(), originals=True).column("error_detail").to_pylist()
    assert found == [(SECRET * 20)[:SHOWN], *(detail for _, detail, _ in DETAILS[1:])]


@pytest.mark.parametrize("originals", [True, False])
def test_a_record_names_its_transform(originals: bool) -> None:
    records = to_records(shown_details(bad_rows(), originals=originals), "plan", "hot")
    assert {record["transform"] for record in records} == {"hot"}
