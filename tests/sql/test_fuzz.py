"""Mutated queries: each plans or raises an error of ours that says who is at fault; nothing else escapes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from tests.search import scaled
from windowpane.config import Options, Transform, parse_stream, parse_table
from windowpane.errors import InternalError, WindowpaneError
from windowpane.plan.build import plan_query
from windowpane.plan.explain import explain, render
from windowpane.plan.pipeline import stream_catalog
from windowpane.sql import bind

QUERIES = scaled(4_000)
PARTS = 4
SEED = 20_251_115
STREAMS = {
    "bids": parse_stream(
        "bids", {"schema": "auction BIGINT, price DECIMAL(10,2), bidder STRING, ts TIMESTAMP, tags ARRAY<STRING>"}
    ),
    "asks": parse_stream("asks", {"schema": "item BIGINT, price BIGINT, at STRING, place STRUCT<x: INT, y: INT>"}),
    "raw": parse_stream("raw", {"format": "parquet"}),
}
TABLES = {"items": parse_table("items", {"schema": "auction BIGINT, category STRING"})}
CATALOG = stream_catalog(STREAMS, TABLES)
OPTIONS, TRANSFORM = Options(), Transform()

CORPUS = tuple(
    """
SELECT auction, count(*) AS n, max(price) AS top FROM bids GROUP BY tumblingwindow('ss', 10), auction

SELECT auction, sum(price) / count(*) AS mean FROM bids GROUP BY hoppingwindow('ss', 60, 5), auction
HAVING mean > 3

SELECT bidder, count(*) AS n, window_start, window_end FROM bids GROUP BY sessionwindow('mi', 5), bidder

SELECT auction, sum(price) AS s FROM bids GROUP BY slidingwindow('ss', 10, 15) OVER (PARTITION BY auction),
auction

SELECT count(*) AS n FROM bids GROUP BY slidingwindow('ss', 10) OVER (WHEN price > 10)

SELECT sum(price) AS s FROM bids GROUP BY countwindow(10, 2)

SELECT count(*) FROM bids GROUP BY statewindow(price > 10, price > 100) OVER (PARTITION BY auction)

SELECT auction, sum(price) AS total FROM bids GROUP BY auction WINDOW TUMBLING (SIZE 1 MINUTE, OFFSET 5 SECONDS)
ON ts WATERMARK (LAG 5 SECONDS, ALLOWED LATENESS 1 MINUTE) EMIT ON UPDATE

SELECT count(*) FROM bids WINDOW HOPPING (SIZE INTERVAL '10' SECOND, SLIDE '5s') ON ts EMIT EVERY 5 SECONDS

SELECT count(*) FROM bids WINDOW SESSION (GAP 5 MINUTES) ON ts EMIT ON WINDOW CLOSE

SELECT count(*) FROM bids WINDOW SLIDING (LOOKBACK 10 SECONDS, LOOKAHEAD 5 SECONDS) ON ts

SELECT window.start, count(*) FROM bids GROUP BY window(ts, '10 seconds', '5 seconds', '1 second')

SELECT count(*) FROM bids GROUP BY session_window(ts, '5 minutes'), bidder

SELECT count(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)

SELECT count(*) FROM bids GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)

SELECT category, count(*) AS n FROM bids b JOIN items i ON b.auction = i.auction GROUP BY tumblingwindow('ss',
10), category

SELECT category, count(*) FROM bids LEFT JOIN items USING (auction) GROUP BY tumblingwindow('ss', 10), category

SELECT id, max(price) FROM (SELECT auction AS id, price FROM bids WHERE price > 0 UNION ALL
SELECT item, CAST(price AS DECIMAL(10,2)) AS price FROM asks) u GROUP BY tumblingwindow('ss', 10), id

SELECT bidder, price * 2 AS twice FROM bids WHERE price > 10 AND bidder LIKE 'a%'

SELECT * FROM bids GROUP BY tumblingwindow('ss', 10)

SELECT auction, count(*) AS n FROM bids GROUP BY tumblingwindow('ss', 10), auction ORDER BY n DESC LIMIT 3

SELECT count(DISTINCT bidder) AS d, count(*) FILTER (WHERE price > 100) AS big FROM bids GROUP BY
tumblingwindow('ss', 10)

SELECT CASE WHEN price > 5 THEN 'a' ELSE upper(bidder) END AS k, percentile(price, 0.5),
approx_count_distinct(bidder) FROM bids GROUP BY tumblingwindow('ss', 10), CASE WHEN price > 5 THEN 'a' ELSE
upper(bidder) END

SELECT place.x, collect_list(item), min_by(item, price) FROM asks GROUP BY tumblingwindow('ss', 10), place.x

SELECT tags[0] AS t, element_at(tags, 1), size(tags) FROM bids WHERE array_contains(tags, 'x')

SELECT k, count(*) FROM raw WHERE cast(v AS INT) IN (1, 2, 3) GROUP BY tumblingwindow('ss', 10), k

SELECT date_trunc('hour', ts) AS h, avg(price) FROM bids WHERE ts BETWEEN '2024-01-01' AND '2025-01-01' GROUP BY
tumblingwindow('hh', 1), date_trunc('hour', ts)

SELECT /* comment */ `bidder` -- end
, first(price, true), last_value(price) FROM bids GROUP BY tumblingwindow("ss", 10), `bidder`
""".strip().split("\n\n")
)
FRAGMENTS = (
    "(", ")", ",", ".", "*", "'", '"', "`", ";", "--", "/*", "*/", "=", "=>", "::", "->", "[", "]", "{", "}", "@",
    "$", "?", ":x", "0", "-1", "1.5", "1e400", "99999999999999999999", "''", "'x'", "NULL", "TRUE", "INTERVAL",
    "INTERVAL 1 DAY", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "WINDOW", "ON", "OVER", "PARTITION BY",
    "WATERMARK", "EMIT", "ON UPDATE", "EVERY", "UNION ALL", "WITH x AS (SELECT 1)", "DISTINCT",
    "LATERAL VIEW explode(tags) t AS x", "PIVOT", "TABLESAMPLE (1 PERCENT)", "count(*)", "sum(sum(price))",
    "rand()", "current_timestamp()", "window_start", "trigger_time", "tumblingwindow('ss', 1)", "(SELECT 1)",
    "EXISTS (SELECT 1)", "x -> x + 1", "CASE", "END", "AS", "LIMIT 1", "ORDER BY 1", "OFFSET 5", "ALL",
    "CUBE (price)",
)  # fmt: skip
UNICODE = "äß漢字🙂\u200b\u202e\u00a0\u0000\ufeff\ud83d'\"`\\\n\t\r"
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\w+|\s+|.", re.DOTALL)

Tokens = list[str]
Mutation = Callable[[Tokens, random.Random], Tokens]


def delete(tokens: Tokens, chance: random.Random) -> Tokens:
    at = chance.randrange(len(tokens))
    return tokens[:at] + tokens[at + chance.randint(1, 3) :]


def swap(tokens: Tokens, chance: random.Random) -> Tokens:
    left, right = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    changed = list(tokens)
    changed[left], changed[right] = changed[right], changed[left]
    return changed


def duplicate(tokens: Tokens, chance: random.Random) -> Tokens:
    start = chance.randrange(len(tokens))
    end = min(len(tokens), start + chance.randint(1, 12))
    return [*tokens[:end], " ", *tokens[start:end], *tokens[end:]]


def replace_literal(tokens: Tokens, chance: random.Random) -> Tokens:
    literals = [at for at, token in enumerate(tokens) if token[:1] in ("'", '"') or token[:1].isdigit()]
    at = chance.choice(literals or range(len(tokens)))
    return [*tokens[:at], chance.choice(FRAGMENTS), *tokens[at + 1 :]]


def replace_word(tokens: Tokens, chance: random.Random) -> Tokens:
    words = [at for at, token in enumerate(tokens) if token[:1].isalpha()]
    at = chance.choice(words or range(len(tokens)))
    return [*tokens[:at], chance.choice(WORDS), *tokens[at + 1 :]]


def replace_number(tokens: Tokens, chance: random.Random) -> Tokens:
    numbers = [at for at, token in enumerate(tokens) if token.isdigit()]
    at = chance.choice(numbers or range(len(tokens)))
    return [*tokens[:at], chance.choice(("0", "1", "7", "100", "86400", "9223372036854775807")), *tokens[at + 1 :]]


def insert(tokens: Tokens, chance: random.Random) -> Tokens:
    at = chance.randrange(len(tokens) + 1)
    return [*tokens[:at], " ", chance.choice(FRAGMENTS), " ", *tokens[at:]]


def sprinkle_unicode(tokens: Tokens, chance: random.Random) -> Tokens:
    at = chance.randrange(len(tokens) + 1)
    return [*tokens[:at], "".join(chance.choices(UNICODE, k=chance.randint(1, 4))), *tokens[at:]]


def truncate(tokens: Tokens, chance: random.Random) -> Tokens:
    text = "".join(tokens)
    return [text[: chance.randrange(1, len(text) + 1)]]


def nest(tokens: Tokens, chance: random.Random) -> Tokens:
    at, depth = chance.randrange(len(tokens)), chance.choice((1, 2, 5, 30, 400))
    return [*tokens[:at], "(" * depth, tokens[at], ")" * (depth - chance.randint(0, 1)), *tokens[at + 1 :]]


def graft(tokens: Tokens, chance: random.Random) -> Tokens:
    other = TOKEN.findall(chance.choice(CORPUS))
    start = chance.randrange(len(other))
    at = chance.randrange(len(tokens))
    return tokens[:at] + other[start : start + chance.randint(1, 15)] + tokens[at:]


WORDS = sorted({token for query in CORPUS for token in TOKEN.findall(query) if token[:1].isalpha()})
MUTATIONS: tuple[Mutation, ...] = (
    delete, delete, swap, duplicate, replace_literal, replace_literal, insert, insert, sprinkle_unicode, truncate,
    nest, graft, replace_word, replace_word, replace_word, replace_number, replace_number, replace_number,
)  # fmt: skip


def mutated(chance: random.Random) -> str:
    tokens = TOKEN.findall(chance.choice(CORPUS))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        tokens = chance.choice(MUTATIONS)(tokens, chance) or [" "]
    return "".join(tokens)


def verdict(sql: str) -> str | None:
    """None when the query plans or is refused properly, else what went wrong."""
    try:
        render(explain(plan_query(bind(sql, CATALOG), STREAMS, OPTIONS, TRANSFORM)))
    except InternalError as error:
        return f"InternalError {error.code}: {error.message}"
    except WindowpaneError as error:
        return None if error.render() and error.as_dict() else "an error without a text"
    except BaseException as error:  # noqa: BLE001  whatever escapes is the finding
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("sql", CORPUS)
def test_the_corpus_itself_is_judged_properly(sql: str) -> None:
    assert verdict(sql) is None


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_queries_plan_or_are_refused(part: int) -> None:
    chance = random.Random(SEED + part)
    queries = [mutated(chance) for _ in range(QUERIES // PARTS)]
    found = {sql: wrong for sql in queries if (wrong := verdict(sql)) is not None}
    shown = "\n".join(f"{wrong[:200]}\n    {sql!r}" for sql, wrong in list(found.items())[:20])
    assert not found, f"{len(found)} queries escaped:\n{shown}"


def test_mutations_give_both_kinds_of_answer() -> None:
    chance = random.Random(SEED)
    planned = 0
    for _ in range(400):
        try:
            bind(mutated(chance), CATALOG)
            planned += 1
        except WindowpaneError:
            pass
    assert 20 < planned < 380
