"""The oracle's properties are checked with tiny segments, so that a few rows are kept in many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windowpane.core import segmented_rows, summaries


@pytest.fixture(autouse=True, scope="module")
def _tiny_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented_rows, "SEGMENT_ROWS", 4)
        patch.setattr(segmented_rows, "CHUNK_ROWS", 6)
        patch.setattr(summaries, "SUMMARY_ROWS", 2)
        yield
