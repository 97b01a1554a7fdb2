"""What all clusters use."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.torture import calm_run
from tests.cluster.rows import FILES, SEED


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for archives for executors: each is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, on this machine, undisturbed."""
    return calm_run(tmp_path_factory.mktemp("jobs") / "calm", SEED, FILES)
