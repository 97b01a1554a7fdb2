"""Nothing is parsed and ignored: each argument of each syntax node is read or refused, whatever sqlglot adds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

import pytest
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from tests.sql.golden import CATALOG, load, summary
from windowpane.errors import SqlError
from windowpane.sql import bind
from windowpane.sql.syntax.clauses import split_clauses
from windowpane.sql.syntax.dialect import parse_tokens
from windowpane.sql.syntax.grammar import FIXED, READ, unread
from windowpane.sql.syntax.parse import read_source
from windowpane.sql.syntax.table_functions import take_table_function

PARSING = sys.modules["windowpane.sql.syntax.select"]
VALUES = (True, False, "x", exp.column("x"), [exp.column("x")], exp.Var(this="X"))


def name_of(kind: type[exp.Expr]) -> str:
    return kind.__name__


@pytest.mark.parametrize("kind", READ, ids=name_of)
def test_every_argument_of_sqlglot_that_is_not_read_is_refused(kind: type[exp.Expr]) -> None:
    for name in kind.arg_types.keys() - READ[kind].keys():
        for value in VALUES:
            if FIXED.get((kind, name)) is not value:
                found = [(each.argument, each.value) for each in unread(kind(**{name: value}))]
                assert found == [(name, value)]


@pytest.mark.parametrize("kind", READ, ids=name_of)
def test_only_nodes_of_the_grammar_stand_in_its_arguments(kind: type[exp.Expr]) -> None:
    for name, allowed in READ[kind].items():
        assert name in kind.arg_types, "sqlglot has no such argument any more"
        assert allowed - {str, bool, exp.DType} <= READ.keys()
        stranger = exp.Hint()
        assert [each.value for each in unread(kind(**{name: stranger}))] == [stranger]
        assert [each.value for each in unread(kind(**{name: [stranger]}))] == [stranger]


WINDOWED = "FROM bids GROUP BY tumblingwindow('ss', 10)"
QUERIES = [
    *(case.sql for case in load("bound")),
    "SELECT a.b.c.d, price - 1, price div 2, -price, bidder || 'x', price & 1, price | 1, price ^ 1, ~price FROM raw a",
    "SELECT price << 1, price >> 1, price = 1 OR price <> 2, NOT ok, price < 1, price <= 1, price >= 1 FROM bids",
    "SELECT price <=> 1, price IS DISTINCT FROM 2, 'a' 'b', price IS NULL, price IN (1, 2) FROM bids",
    "SELECT price BETWEEN 1 AND 2, bidder LIKE 'a' ESCAPE 'b', bidder NOT ILIKE 'a', bidder NOT LIKE 'c' FROM bids",
    "SELECT bidder LIKE ANY ('a', 'b'), bidder LIKE ALL ('a'), CASE price WHEN 1 THEN 2 END FROM bids",
    "SELECT TRY_CAST(price AS DECIMAL(10, 2)), CAST(NULL AS STRUCT<a: ARRAY<INT>>) FROM bids",
    "SELECT INTERVAL '1-2' YEAR TO MONTH FROM bids",
    "SELECT EXTRACT(DAY FROM ts), TRIM(BOTH 'x' FROM bidder), SUBSTRING(bidder, 1, 2), info.b[0], X'1F' FROM bids",
    "SELECT OVERLAY(bidder PLACING 'a' FROM 1 FOR 2), POSITION('a' IN bidder), ts AT TIME ZONE 'UTC' FROM bids",
    "SELECT bidder COLLATE UTF8_LCASE, transform(info.b, x -> x), struct(price AS p) FROM bids",
    "SELECT f(x => 1), DATE '2020-01-01' FROM bids",
    "SELECT IF(ok, 1, 2), (bids.price, 1) IN ((1, 2)), users.* FROM bids JOIN users ON bids.bidder = users.id",
    f"SELECT first(price) RESPECT NULLS {WINDOWED}",
    f"SELECT first(price RESPECT NULLS) {WINDOWED}",
    "SELECT x, n FROM bids LATERAL VIEW OUTER posexplode(info.b) t AS n, x",
    "SELECT x, n FROM bids CROSS JOIN UNNEST(info.b) WITH ORDINALITY AS t(x, n)",
    "SELECT x FROM bids, LATERAL explode(info.b) AS t(x)",
    "SELECT posexplode(info.b) AS (n, x) FROM bids",
    f"SELECT sum(auction) OVER (ORDER BY auction ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) {WINDOWED}, auction",
    f"SELECT auction, rank() OVER (ORDER BY auction) AS r {WINDOWED}, auction QUALIFY r = 1",
    f"SELECT auction, count(*) {WINDOWED}, ROLLUP (auction, bidder), CUBE (channel), GROUPING SETS ((ok), ())",
    f"SELECT auction, count(*) {WINDOWED}, auction WITH ROLLUP",
    f"SELECT auction, count(*) {WINDOWED}, auction WITH CUBE",
    f"SELECT auction, count(*) {WINDOWED}, auction, bidder GROUPING SETS ((auction), (bidder))",
]
MEANINGLESS = {
    (exp.Identifier, "quoted"): "a name means the same in backticks",
    (exp.Window, "over"): "always the word OVER",
    (exp.DataType, "nested"): "follows from the type",
    (exp.Lateral, "view"): "LATERAL VIEW and a join with LATERAL mean the same",
}
REFUSED_LATER = {exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.SessionUser}
"""Nodes that are read to be refused with a message of their own: they never give the same value twice."""


def other_than(value: object) -> object:
    """Another value for an argument, of the same kind."""
    if isinstance(value, list):
        return value[:-1]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "9" if value != "9" else "8"
    if isinstance(value, exp.DType):
        return exp.DType.DATE
    return exp.to_identifier("zz") if isinstance(value, exp.Identifier) else exp.Literal.string("zz")


def outcome(sql: str) -> str:
    try:
        return "\n".join(summary(bind(sql, CATALOG)).splitlines())
    except (SqlError, AttributeError, TypeError, ValueError, KeyError, IndexError, AssertionError) as error:
        return type(error).__name__ + str(error)


unchanged = cache(outcome)


def places() -> Iterator[tuple[type[exp.Expr], str, str, int]]:
    """Every argument that a query sets: its class and name, the query, and which node of the tree has it."""
    seen: set[tuple[type[exp.Expr], str]] = set()
    for sql in QUERIES:
        if "UNION" in sql or "(SELECT" in sql:  # several trees
            continue
        source, _ = take_table_function(read_source(sql))
        tree = parse_tokens(split_clauses(source).query, sql)
        assert tree is not None
        for number, node in enumerate(tree.walk()):
            for name, value in node.args.items():
                if value not in (None, []) and (type(node), name) not in seen and name in READ[type(node)]:
                    seen.add((type(node), name))
                    yield type(node), name, sql, number


PLACES = list(places())


def test_the_queries_set_every_argument_that_is_read() -> None:
    read = {(kind, name) for kind, names in READ.items() for name in names if kind not in REFUSED_LATER}
    assert {(kind.__name__, name) for kind, name in read - {(kind, name) for kind, name, _, _ in PLACES}} == set()


@pytest.mark.parametrize(
    ("kind", "name", "sql", "number"), PLACES, ids=[f"{kind.__name__}-{name}" for kind, name, _, _ in PLACES]
)
def test_another_value_of_an_argument_gives_another_query(
    kind: type[exp.Expr], name: str, sql: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (kind, name) in MEANINGLESS:
        return

    def changed(tokens: list[Token], text: str) -> exp.Expr:
        tree = parse_tokens(tokens, text)
        assert tree is not None
        node = list(tree.walk())[number]
        node.set(name, other_than(node.args[name]))
        return tree

    before = unchanged(sql)
    assert "canonical: " in before
    monkeypatch.setattr(PARSING, "parse_tokens", changed)
    assert outcome(sql) != before


@pytest.mark.parametrize(
    "sql",
    [f"SELECT auction {WINDOWED}, auction ORDER BY auction LIMIT 1 BY auction", "SELECT auction FROM bids@v1",
     "SELECT auction, count(*) FROM bids GROUP BY DISTINCT auction, tumblingwindow('ss', 10)"],
)  # fmt: skip
def test_syntax_is_not_accepted_and_ignored(sql: str) -> None:
    with pytest.raises(SqlError):
        bind(sql, CATALOG)
