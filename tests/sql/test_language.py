"""What the golden queries cannot show: durations, identity of plans, hostile texts, and work on bound expressions."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.spark import corpus
from tests.sql.golden import CATALOG
from windowpane.core.windows import CalendarSpan, Hopping, Sliding, Tumbling
from windowpane.core.windows.calendar import CalendarTumbling
from windowpane.errors import SqlError
from windowpane.formats import source_format
from windowpane.sql import (
    Catalog,
    bind,
    columns_of,
    parse,
    parse_schema,
    rename_columns,
    with_record_columns,
)
from windowpane.sql.binding.inference import infer
from windowpane.sql.query import Column, Expr
from windowpane.sql.scalar import read_expression
from windowpane.sql.signatures import TABLE

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10 SECONDS", 10 * SECOND),
        ("10 second", 10 * SECOND),
        ("INTERVAL 10 SECONDS", 10 * SECOND),
        ("INTERVAL '10' SECOND", 10 * SECOND),
        ("INTERVAL '10 seconds'", 10 * SECOND),
        ("'10s'", 10 * SECOND),
        ('"10s"', 10 * SECOND),
        ("'1 minute 30 seconds'", 90 * SECOND),
        ("1 MINUTE 30 SECONDS", 90 * SECOND),
        ("INTERVAL '1' MINUTE '30' SECOND", 90 * SECOND),
        ("1.5 SECONDS", 1_500_000),
        ("'0.001ms'", 1),
        ("5 MICROSECONDS", 5),
        ("2 WEEKS", 14 * 86_400 * SECOND),
    ],
)
def test_a_duration_in_every_spelling(text: str, us: int) -> None:
    assert parse(f"SELECT * FROM s WINDOW TUMBLING (SIZE {text})").window.spec == Tumbling(us)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "count", "unit"),
    [("1 DAY", 1, "day"), ("INTERVAL '2' WEEKS", 2, "week"), ("'3 months'", 3, "month"), ("1 quarter", 1, "quarter"),
     ("INTERVAL 2 YEAR", 2, "year"), ("INTERVAL '1 month'", 1, "month"), ("'1d'", 1, "day"), ("1 D", 1, "day")],
)  # fmt: skip
def test_a_calendar_size_in_every_spelling(text: str, count: int, unit: str) -> None:
    window = parse(f"SELECT * FROM s WINDOW TUMBLING (SIZE {text}, TIME ZONE 'Asia/Tokyo')").window
    assert window is not None
    assert isinstance(window.spec, CalendarTumbling)
    assert window.spec.size == CalendarSpan(count, unit)
    if not text.startswith("'") and unit in ("month", "quarter", "year"):
        assert parse(f"SELECT count(*) FROM s GROUP BY window(ts, {text})").window.spec.size == window.spec.size  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    ["10", "SECONDS", "'ten seconds'", "10 PARSECS", "INTERVAL", "10 SECONDS SECONDS", "1e3 SECONDS x", "'1 fortnight'",
     "INTERVAL '1-2' YEAR TO MONTH", "'0.0001ms'", "292278 YEARS", "9223372036855 SECONDS", "ts", "10s"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(SqlError) as refused:
        parse(f"SELECT * FROM s WINDOW TUMBLING (SIZE {text})")
    assert refused.value.code == "BAD_INTERVAL"


def test_the_statement_keeps_the_window_apart_from_the_keys() -> None:
    stmt = parse("SELECT b FROM stream GROUP BY a, slidingwindow('ss', 10, 15), upper(b)")
    assert stmt.window is not None
    assert stmt.window.spec == Sliding(10 * SECOND, 15 * SECOND)
    assert stmt.describe()[1:] == ["group by: a", "group by: upper(b)"]


def test_flinks_hop_has_the_slide_first_and_sparks_window_the_size() -> None:
    hop = parse("SELECT 1 FROM s GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)").window
    window = parse("SELECT 1 FROM s GROUP BY window(ts, '10 seconds', '5 seconds')").window
    assert hop is not None
    assert window is not None
    assert hop.spec == window.spec == Hopping(10 * SECOND, 5 * SECOND)


GROUPED = "SELECT auction, count(*) AS n FROM bids WHERE price > 1 GROUP BY"
SAME = [
    f"{GROUPED} tumblingwindow('ss', 10), auction",
    f"{GROUPED} 1 WINDOW TUMBLING (SIZE INTERVAL '10' SECOND) EMIT ON WINDOW CLOSE",
    f"{GROUPED} `auction`, tumblingwindow('ms', 10000)",
    """select  AUCTION,
\tCOUNT( * ) as n -- comment
from bids /* here */ where PRICE>1 group by TUMBLINGWINDOW("ss",10),auction;""",
    """SELECT b.auction AS auction, count(*) n FROM `bids` AS b WHERE b.price > 1
    GROUP BY auction WINDOW TUMBLING (SIZE 10 SECONDS)""",
]
OTHER = [
    SAME[0].replace("AS n", "AS m"),
    SAME[0].replace("> 1", "> 2"),
    f"{GROUPED} tumblingwindow('ss', 11), auction",
    f"{GROUPED} hoppingwindow('ss', 10, 10), auction",
    f"{GROUPED} tumblingwindow('ss', 10), auction EMIT ON UPDATE",
    f"{GROUPED} tumblingwindow('ss', 10), auction WATERMARK (LAG '1s')",
    f"{GROUPED} auction WINDOW TUMBLING (SIZE 10 SECONDS) ON ts",
]


def test_formatting_and_spelling_do_not_change_the_plan_id() -> None:
    assert len({bind(sql, CATALOG).plan_id for sql in SAME}) == 1


def test_meaning_changes_the_plan_id() -> None:
    assert len({bind(sql, CATALOG).plan_id for sql in [SAME[0], *OTHER]}) == len(OTHER) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5_000 + "price" + ")" * 5_000 + " FROM bids",
        "SELECT " + "-" * 3 + " FROM bids",
        "SELECT " + "NOT " * 3_000 + "ok FROM bids",
        "SELECT " + " + ".join(["price"] * 5_000) + " AS s FROM bids",
        "SELECT " + "coalesce(" * 800 + "price" + ")" * 800 + " AS c FROM bids",
        "SELECT price FROM bids WHERE " + "ok AND (" * 900 + "ok" + ")" * 900,
        "SELECT price FROM " + "(SELECT price FROM bids UNION ALL " * 300 + "SELECT price FROM bids" + ")" * 300,
        "SELECT price FROM " + "(" * 20_000 + "SELECT price FROM bids" + ")" * 20_000,
        "SELECT price FROM " + "(SELECT price FROM " * 1_000 + "bids" + ")" * 1_000,
        "WITH " + ", ".join(f"a{number} AS (SELECT price FROM bids)" for number in range(2_000)) + " SELECT 1 FROM a1",
        "SELECT price FROM bids WHERE " + " AND ".join(["price IN (1)"] * 2_000),
        "WITH a0 AS (SELECT price FROM bids)"
        + "".join(f", a{n + 1} AS (SELECT price FROM a{n} UNION ALL SELECT price FROM a{n})" for n in range(30))
        + " SELECT price FROM a30",
        "x" * 300_000,
        "\x00", "\ud800", "SELECT \x00 FROM bids", "``", "SELECT `` FROM bids", "SELECT * FROM ``", "SELECT $1",
        "SELECT 1e999999999 FROM bids", "SELECT 'a\\", "SELECT price FROM bids --", "SELECT /* */ /* FROM bids",
    ],
    ids=lambda sql: sql[:20].encode("unicode_escape").decode(),
)  # fmt: skip
def test_hostile_texts_are_bound_or_refused_quickly(sql: str) -> None:
    started = time.process_time()
    with contextlib.suppress(SqlError):
        bind(sql, CATALOG)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " FROM bids", "TOO_DEEP"),
        ("x" * 300_000, "TOO_LONG"),
        ("SELECT '\ud83d'", "BAD_CHARACTER"),
    ],
    ids=["deep", "long", "half"],
)
def test_texts_that_cannot_be_shown_have_their_own_codes(sql: str, code: str) -> None:
    with pytest.raises(SqlError) as refused:
        bind(sql, CATALOG)
    assert refused.value.code == code


def test_a_query_of_fifty_columns_is_bound_in_time_that_grows_with_it() -> None:
    """Twice the columns take about twice the time, whatever else the machine does: the best of a few tries counts."""
    half, whole = (min(_seconds_to_bind(columns) for _ in range(5)) for columns in (25, 50))
    assert whole < 4 * half


def _seconds_to_bind(columns: int) -> float:
    catalog = Catalog({"wide": parse_schema(", ".join(f"c{i} BIGINT" for i in range(columns)))})
    items = ", ".join(f"sum(c{i}) + max(c{i}) AS s{i}" for i in range(columns))
    started = time.process_time()
    bound = bind(f"SELECT {items} FROM wide GROUP BY tumblingwindow('ss', 10)", catalog)
    assert len(bound.aggregates) == 2 * columns
    return time.process_time() - started


def test_names_are_found_in_any_letter_case_and_keep_the_schemas_spelling() -> None:
    bound = bind("SELECT B.AUCTION, b.Info.A AS x FROM BIDS b", CATALOG)
    assert [output.name for output in bound.outputs] == ["auction", "x"]
    assert bound.relation.streams[0].name == "bids"
    assert bound.outputs[1].expr.type == "INT"


def test_schemas_in_sparks_notations() -> None:
    ddl = "a LONG NOT NULL COMMENT '', b: map<string, array<int>>, `c d` STRUCT<e INT, `f g`: DEC(5,1)>, date DATE"
    assert parse_schema(ddl) == (
        Column("a", "BIGINT"),
        Column("b", "MAP<STRING,ARRAY<INT>>"),
        Column("c d", "STRUCT<e:INT,`f g`:DECIMAL(5,1)>"),
        Column("date", "DATE"),
    )


def test_kafkas_columns_are_known() -> None:
    catalog = Catalog({"k": columns_of(source_format("kafka").columns or ())})
    bound = bind("SELECT cast(value AS STRING) AS v, `partition`, timestamp FROM k", catalog)
    assert [output.expr.type for output in bound.outputs] == ["STRING", "INT", "TIMESTAMP"]


def test_metadata_of_a_decoded_kafka_stream_is_named_and_never_in_the_way() -> None:
    declared = parse_schema("k STRING, `Timestamp` BIGINT")
    catalog = Catalog(
        {"s": with_record_columns(declared, source_format("kafka").record_columns)},
        {"t": parse_schema("key STRING, name STRING")},
    )
    assert [output.name for output in bind("SELECT * FROM s", catalog).outputs] == ["k", "Timestamp"]
    named = bind("SELECT topic, offset, timestamp FROM s", catalog)
    assert [output.expr.type for output in named.outputs] == ["STRING", "BIGINT", "BIGINT"], "a declared one hides it"
    joined = bind("SELECT key, name FROM s JOIN t ON s.k = t.key WHERE key > 'a'", catalog)
    assert joined.where is not None
    assert joined.where.columns == ("t__key",)
    union = bind("SELECT * FROM (SELECT * FROM s UNION ALL SELECT k, partition FROM s) AS u", catalog)
    assert [output.name for output in union.outputs] == ["k", "Timestamp"]


def test_renaming_leaves_lambda_variables_and_fields_alone() -> None:
    expr = Expr("transform(_c0.x, x -> x + x.y + _c1)", None, ("_c0", "_c1"))
    renamed = rename_columns(expr, {"_c0": "_c1", "x": "_z"})
    assert renamed == Expr("transform(_c1.`x`, x -> x + x.y + _c1)", None, ("_c1",))


def test_expressions_carry_their_place_in_the_text() -> None:
    sql = "SELECT\tauction,\n  sum(price * 2) AS s FROM bids GROUP BY tumblingwindow('ss', 10), auction HAVING s > 1"
    bound = bind(sql, CATALOG)
    spans = [bound.outputs[1].expr.span, bound.keys[0].expr.span, bound.window.span if bound.window else None]
    shown = [sql[span.start : span.end] for span in spans if span is not None]
    assert shown == ["sum(price * 2) AS s", "auction", "tumblingwindow('ss', 10)"]


def test_the_planner_knows_the_type_of_every_function_that_is_evaluated_without_spark() -> None:
    """Otherwise the columnar scan refuses a query although all of its expressions are proven."""
    types = corpus.types()
    signatures = {next(corpus.uses(signature)): signature.result for signature in TABLE.values()}
    known = {text: infer(read_expression(text), types) for text in signatures}
    assert known == signatures
