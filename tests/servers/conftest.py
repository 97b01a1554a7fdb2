"""One broker, one database and one Spark session, with the Kafka connector, for all tests of this folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from scripts.servers import AnyServer, Kafka, Postgres, Redis, UnavailableError, connector_jars, running
from tests.servers.world import Broker, Database
from windowpane.config import SparkSettings
from windowpane.connectors.kafka import require_connector
from windowpane.errors import ConfigError
from windowpane.spark.session import create_session

Brought = TypeVar("Brought")


@pytest.fixture(scope="package")
def kafka() -> Iterator[Broker]:
    for server in started(Kafka):
        yield Broker(server)


@pytest.fixture(scope="package")
def database() -> Iterator[Database]:
    for server in started(Postgres):
        yield Database(server)


@pytest.fixture(scope="package")
def redis() -> Iterator[Redis]:
    yield from started(Redis)


@pytest.fixture(autouse=True)
def _empty_database(request: pytest.FixtureRequest) -> None:
    if "database" in request.fixturenames:
        address = request.getfixturevalue("database").url
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    settings = SparkSettings(
        master="local[2]", jars=tuple(available(connector_jars)), config={"spark.driver.memory": "2g"}
    )
    session = create_session(settings)
    if not has_connector(session):
        session.stop()
        _end_java()
        session = create_session(settings)
    yield session
    session.stop()


def has_connector(session: SparkSession) -> bool:
    with contextlib.suppress(ConfigError):
        require_connector(session, "a test", "")
        return True
    return False


def started(kind: Callable[[], AnyServer]) -> Iterator[AnyServer]:
    """A server for the length of the tests, or a skipped test that says why there is none; in CI that is a failure."""
    with running(lambda: available(kind)) as server:
        yield server


def available(bring: Callable[[], Brought]) -> Brought:
    try:
        return bring()
    except UnavailableError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


def _end_java() -> None:
    """Java was started by another test, before the connector had been fetched."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
