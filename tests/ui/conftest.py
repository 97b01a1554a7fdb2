"""Checkpoints for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.synthetic import Synthetic


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Synthetic]:
    """A checkpoint on which a pipeline seems to run, after 30 micro-batches."""
    made = Synthetic(tmp_path)
    made.run(30)
    yield made
    made.lock.release()
