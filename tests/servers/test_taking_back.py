"""Rows of batches after a savepoint leave a table of PostgreSQL, and nothing else does."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import sql

from tests.servers.world import Database
from windowpane.connectors.postgres.sink import KEPT_BATCHES, PostgresSink
from windowpane.connectors.postgres.statements import CREATE_LEDGER
from windowpane.connectors.postgres.taking_back import take_back_rows
from windowpane.errors import SinkError
from windowpane.remote.access import NO_ACCESS

pytestmark = pytest.mark.postgres


def enter(connection: psycopg.Connection[tuple[object, ...]], run: str, batch_id: int, *, side: bool = False) -> None:
    row = connection.execute(
        "INSERT INTO windowpane_batches (target, run, transform, side, batch_id, final) "
        "VALUES ('hot', %s, 't', %s, %s, false) RETURNING entry",
        (run, side, batch_id),
    ).fetchone()
    assert row is not None
    connection.execute("INSERT INTO hot VALUES (%s, %s), (%s, %s)", (f"{run}{batch_id}", row[0]) * 2)


def test_rows_after_the_savepoint_go(database: Database) -> None:
    options = {"url": database.url, "table": "hot"}
    assert take_back_rows("out", options, runs=["a"], transform="t", side=False, after=1) == 0, "no table yet"
    assert PostgresSink("out", options).count_rows(NO_ACCESS, runs=["a"], transform="t", side=False) == {}
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(CREATE_LEDGER.format(sql.Identifier("windowpane_batches")))
        connection.execute("CREATE TABLE hot (what text, _batch bigint)")
        for batch_id in range(4):
            enter(connection, "a", batch_id)
            enter(connection, "b", batch_id)
            enter(connection, "c", batch_id)
            enter(connection, "a", batch_id, side=True)
        sink = PostgresSink("out", options)
        assert sink.count_rows(NO_ACCESS, runs=["a", "b"], transform="t", side=False) == dict.fromkeys(range(4), 4)
        assert sink.count_rows(NO_ACCESS, runs=["b"], transform="t", side=True) == {}
        removed = take_back_rows("out", options, runs=["a", "b"], transform="t", side=False, after=1)
        assert removed == 8
        left = connection.execute("SELECT what, count(*) FROM hot GROUP BY what ORDER BY what").fetchall()
        assert dict(left) == {"a0": 4, "a1": 4, "a2": 2, "a3": 2, "b0": 2, "b1": 2, "c0": 2, "c1": 2, "c2": 2, "c3": 2}
        assert take_back_rows("out", options, runs=["a", "b"], transform="t", side=False, after=1) == 0
        enter(connection, "a", 2)  # the number is free again
        enter(connection, "a", KEPT_BATCHES + 9)
        with pytest.raises(SinkError) as too_far:
            take_back_rows("out", options, runs=["a"], transform="t", side=False, after=1)
        assert too_far.value.code == "SINK_TOO_FAR"


def test_side_records_are_read_by_run_and_transform(database: Database) -> None:
    """A batch that the table of batches has forgotten is known by what its records say."""
    sink = PostgresSink("aside", {"url": database.url, "table": "hot"})
    assert sink.read_side(NO_ACCESS, runs=["a"], transform="t") == [], "no table yet"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(CREATE_LEDGER.format(sql.Identifier("windowpane_batches")))
        connection.execute("CREATE TABLE hot (record jsonb, _batch bigint)")
        for number, (run, transform) in enumerate([("a", "t"), ("b", "t"), ("a", "u")]):
            connection.execute(
                "INSERT INTO windowpane_batches (target, run, transform, side, batch_id, final) "
                "VALUES ('hot', %s, %s, true, %s, false)", (run, transform, number + 5),
            )  # fmt: skip
            record = json.dumps({"transform": transform, "kind": "late", "number": number})
            connection.execute("INSERT INTO hot VALUES (%s, %s)", (record, number + 1))
        connection.execute("INSERT INTO hot VALUES (%s, 77)", (json.dumps({"transform": "t", "number": 3}),))
        found = sink.read_side(NO_ACCESS, runs=["a"], transform="t")
    assert sorted((batch, json.loads(text)["number"]) for batch, text in found) == [(-1, 3), (5, 0)]
