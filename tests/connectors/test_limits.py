"""How much a micro-batch may take from a stream: the user's limit, else windowpane's."""

from __future__ import annotations

from typing import Any

import pytest

from windowpane.config import parse_stream
from windowpane.connectors.limits import FILE_BYTES, limited_options


def options(**settings: Any) -> dict[str, str]:
    return limited_options(parse_stream("t", settings), max_records=7)


def test_streams_without_a_limit_get_one() -> None:
    assert options(format="json", path="x") == {"maxBytesPerTrigger": str(FILE_BYTES)}
    assert options(format="kafka", options={"a": 1}) == {"maxOffsetsPerTrigger": "7", "a": "1"}
    assert options(format="rate", options={"rowsPerSecond": 5}) == {"rowsPerSecond": "5"}


@pytest.mark.parametrize(
    ("source", "name"),
    [("json", "maxFilesPerTrigger"), ("csv", "maxbytespertrigger"), ("kafka", "maxOffsetsPerTrigger"),
     ("kafka", "minOffsetsPerTrigger")],
)  # fmt: skip
def test_a_limit_of_the_user_stays_alone(source: str, name: str) -> None:
    assert options(format=source, options={name: 3}) == {name: "3"}
