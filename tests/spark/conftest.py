"""One Spark session for all tests of this folder, on two cores, and what a task has without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from windowpane.config import SparkSettings
from windowpane.spark.session import create_session


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session that is there, or a new one where tests of another folder have ended it."""
    return create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "2g"}))


@pytest.fixture
def context() -> Iterator[TaskContext]:
    """What a worker's task has."""
    before = TaskContext._taskContext
    TaskContext._taskContext = None
    yield TaskContext._getOrCreate()
    TaskContext._taskContext = before
