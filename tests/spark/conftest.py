"""One Spark session for all tests of this folder, on two cores."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from windowpane.config import SparkSettings
from windowpane.spark.session import create_session


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session that is there, or a new one where tests of another folder have ended it."""
    return create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "2g"}))
