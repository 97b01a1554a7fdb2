"""What is left of SQL is refused by name, with the nearest thing that works: each pair here is a query that is
refused, and what its hint leads to.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.golden import CATALOG
from windowpane.errors import SqlError
from windowpane.sql import bind
from windowpane.testing import Harness

W = "GROUP BY tumblingwindow('ss', 10)"
MATCHED = "MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts MEASURES a.price AS p PATTERN (a b+) DEFINE b AS b.ok)"
CASES = [
    (f"SELECT * FROM bids {MATCHED}", "UNSUPPORTED_MATCH", "statewindow",
     "SELECT auction, count(*) AS n FROM bids GROUP BY statewindow(ok, NOT ok) OVER (PARTITION BY auction)"),
    ("SELECT auction, count(*) FROM bids GROUP BY auction", "NEEDS_WINDOW", "EMIT ON UPDATE",
     "SELECT auction, count(*) FROM bids GROUP BY auction, tumblingwindow('dd', 365) EMIT ON UPDATE"),
    ("SELECT count(*) FROM bids", "NEEDS_WINDOW", "tumblingwindow", f"SELECT count(*) FROM bids {W}"),
    ("SELECT auction, (SELECT max(name) FROM users WHERE id = bidder) AS m FROM bids", "UNSUPPORTED_SUBQUERY",
     "LEFT JOIN t ON", "SELECT auction, name FROM bids LEFT JOIN users ON id = bidder"),
    ("SELECT * FROM bids PIVOT (sum(price) FOR channel IN ('a', 'b'))", "UNSUPPORTED_PIVOT", "FILTER",
     f"SELECT sum(price) FILTER (WHERE channel = 'a') AS a FROM bids {W}"),
    ("SELECT * FROM bids UNPIVOT (v FOR n IN (price, auction))", "UNSUPPORTED_PIVOT", "stack",
     "SELECT n, v FROM bids LATERAL VIEW stack(2, 'price', price, 'auction', auction) AS n, v"),
    ("SELECT auction FROM bids TABLESAMPLE (10 PERCENT)", "UNSUPPORTED_SAMPLE", "pmod(xxhash64",
     "SELECT auction FROM bids WHERE pmod(xxhash64(auction), 100) < 10"),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r", "UNSUPPORTED_CTE", "WITH a",
     "WITH a AS (SELECT auction FROM bids), b AS (SELECT auction + 1 AS n FROM a) SELECT n FROM b"),
    ("SELECT sum(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM bids",
     "OVER_WITHOUT_WINDOW", "slidingwindow",
     "SELECT auction, sum(price) AS s FROM bids GROUP BY slidingwindow('ss', 10) OVER (PARTITION BY auction)"),
    ("SELECT auction FROM bids ORDER BY price", "ORDER_WITHOUT_WINDOW", "remove ORDER BY", "SELECT auction FROM bids"),
    ("SELECT auction FROM bids LIMIT 10", "LIMIT_WITHOUT_WINDOW", "tumblingwindow",
     f"SELECT auction, price FROM bids {W} ORDER BY price LIMIT 10"),
    (f"SELECT auction, count(*) AS n FROM bids {W}, auction ORDER BY n LIMIT 10 OFFSET 5", "UNSUPPORTED_OFFSET",
     "row_number",
     f"SELECT auction, count(*) AS n FROM bids {W}, auction QUALIFY row_number() OVER (ORDER BY n) BETWEEN 6 AND 15"),
    ("SELECT auction FROM bids INTERSECT SELECT auction FROM asks", "UNSUPPORTED_SET_OPERATION", "LEFT SEMI JOIN",
     "SELECT auction FROM bids LEFT SEMI JOIN asks ON bids.auction = asks.auction WINDOW TUMBLING (SIZE 10 SECONDS)"),
    ("SELECT auction FROM bids EXCEPT SELECT auction FROM asks", "UNSUPPORTED_SET_OPERATION", "LEFT ANTI JOIN",
     "SELECT auction FROM bids LEFT ANTI JOIN asks ON bids.auction = asks.auction WINDOW TUMBLING (SIZE 10 SECONDS)"),
    ("SELECT auction FROM bids UNION SELECT auction FROM asks", "UNSUPPORTED_SET_OPERATION", "UNION ALL",
     "SELECT auction FROM bids UNION ALL SELECT auction FROM asks"),
    ("SELECT b.price FROM bids b, asks a WHERE a.auction > b.auction", "JOIN_WITHOUT_EQUALITY", "ON a.k = b.k",
     "SELECT b.price FROM bids b, asks a WHERE a.auction = b.auction WINDOW TUMBLING (SIZE 10 SECONDS)"),
    ("SELECT name FROM bids b JOIN users FOR SYSTEM_TIME AS OF b.ts AS u ON b.bidder = u.id", "UNSUPPORTED_FROM",
     "static table", "SELECT name FROM bids b JOIN users u ON b.bidder = u.id"),
    ("SELECT b.price FROM bids b JOIN LATERAL (SELECT price FROM users u WHERE u.id = b.bidder) l",
     "UNSUPPORTED_SUBQUERY", "join a static table", "SELECT u.price FROM bids b JOIN users u ON u.id = b.bidder"),
    ("INSERT INTO t SELECT * FROM bids", "NOT_A_SELECT", "sink", "SELECT * FROM bids"),
    ("CREATE TABLE t AS SELECT * FROM bids", "NOT_A_SELECT", "configuration", "SELECT * FROM bids"),
    ("SELECT rand() FROM bids", "NONDETERMINISTIC", "column of the stream", "SELECT price FROM bids"),
    (f"SELECT auction FROM bids {W} FETCH FIRST 3 ROWS ONLY", "UNSUPPORTED_FETCH", "LIMIT",
     f"SELECT auction FROM bids {W} ORDER BY auction LIMIT 3"),
    (f"SELECT auction FROM bids {W} SORT BY price", "UNSUPPORTED_SORT", "ORDER BY",
     f"SELECT auction FROM bids {W} ORDER BY price"),
    ("SELECT json_tuple(bidder, 'a') FROM bids", "UNSUPPORTED_GENERATOR", "get_json_object",
     "SELECT get_json_object(bidder, '$.a') AS a FROM bids"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "code", "hint", "instead"), CASES, ids=[case[0][:50] for case in CASES])
def test_what_is_refused_names_what_works(sql: str, code: str, hint: str, instead: str) -> None:
    with pytest.raises(SqlError) as refused:
        bind(sql, CATALOG)
    assert refused.value.code == code
    assert refused.value.hint is not None
    assert hint in refused.value.hint
    bind(instead, CATALOG)


HINTED = [
    "SELECT b.k FROM a AS b WHERE b.v = (SELECT max(v) FROM a WHERE a.k = b.k)",
    "SELECT k, (SELECT max(v) FROM b WHERE b.k = a.k) AS most FROM a",
    "SELECT k FROM a WHERE v >= ALL (SELECT v FROM b WHERE b.k = a.k)",
    "SELECT a.k, m FROM a CROSS JOIN LATERAL (SELECT v AS m FROM b WHERE b.k = a.k) AS x",
    "SELECT a.k, b.v FROM a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts",
]
_STREAM = {"schema": "k BIGINT, v BIGINT, ts TIMESTAMP", "eventtime": {"column": "ts", "type": "timestamp"}}


@pytest.mark.parametrize("sql", HINTED)
def test_queries_in_hints_run(sql: str) -> None:
    """A hint's own queries, from SELECT to the next semicolon, over the streams that it names."""
    given: dict[str, Any] = {
        "streams": {"a": _STREAM, "b": _STREAM},
        "tables": {"t": {"schema": "k BIGINT, v BIGINT"}},
        "options": {"eventtime.enabled": True},
    }
    with pytest.raises(SqlError) as refused:
        Harness(sql, **given)
    found = [part[part.index("SELECT") :] for part in (refused.value.hint or "").split(";")]
    assert found
    for each in found:
        Harness(each, **given)
