"""Input, checkpoint and output in an object store and in HDFS; a driver that is away while another one takes over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.torture import calm_run, torture
from bench.torture_places import IN_FOLDER, InStore, in_bucket
from scripts.servers import S3, Hdfs, UnavailableError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SEED, FILES = 5, 3


@pytest.fixture
def bucket(s3: S3) -> InStore:
    """The test is skipped where the jars of S3A cannot be had, and fails where CI is set."""
    try:
        return in_bucket(s3)
    except UnavailableError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run in a folder."""
    return calm_run(tmp_path_factory.mktemp("calm"), SEED, FILES)


def test_a_kill_and_a_pause_with_everything_in_a_bucket(tmp_path: Path, bucket: InStore, calm: Path) -> None:
    verdict = torture(tmp_path, kills=1, seed=SEED, files=FILES, place=bucket, pausing=True, going_back=True, calm=calm)
    assert len(verdict.killed) == 1
    assert not verdict.differences


@pytest.mark.long
def test_a_kill_with_everything_in_hdfs(tmp_path: Path, hdfs: Hdfs, calm: Path) -> None:
    place = InStore(f"{hdfs.url}/torture")
    verdict = torture(tmp_path, kills=1, seed=SEED, files=FILES, place=place, going_back=True, calm=calm)
    assert len(verdict.killed) == 1
    assert not verdict.differences


def test_a_driver_that_was_away_gives_up_where_locks_do_not_reach(tmp_path: Path, calm: Path) -> None:
    assert not torture(tmp_path, kills=0, seed=SEED, files=FILES, place=IN_FOLDER, pausing=True, calm=calm).differences
