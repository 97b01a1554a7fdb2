"""What all clusters use."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for archives for executors: each is made once."""
    return tmp_path_factory.mktemp("cache")
