"""Input, checkpoint and output in an object store; a driver that is away while another one takes over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.torture import torture
from bench.torture_places import IN_FOLDER, InBucket
from scripts.servers import S3, UnavailableError, hadoop_jars

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def bucket(s3: S3) -> InBucket:
    return InBucket(s3.bucket, s3.settings, available(hadoop_jars))


def available(bring: Callable[[], list[str]]) -> list[str]:
    """The jars; the test is skipped where they cannot be had, and fails where CI is set."""
    try:
        return bring()
    except UnavailableError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


def test_kills_and_a_pause_with_everything_in_a_bucket(tmp_path: Path, bucket: InBucket) -> None:
    verdict = torture(tmp_path, kills=2, seed=5, files=4, place=bucket, pause=True)
    assert len(verdict.killed) == 2
    assert not verdict.differences


def test_a_driver_that_was_away_gives_up_where_locks_do_not_reach(tmp_path: Path) -> None:
    assert not torture(tmp_path, kills=0, seed=6, files=4, place=IN_FOLDER, pause=True).differences
