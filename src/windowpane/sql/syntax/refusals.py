"""Refuses Spark syntax that this engine does not run. Allow-lists ensure that nothing is ignored silently."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import SqlError, nearest
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.generators import is_generator
from windowpane.sql.syntax.grammar import EXPRESSION, READ, Unread, unread
from windowpane.sql.syntax.source import Place, SourceText
from windowpane.sql.types import SPELLINGS, type_name

GROUP_HINT = "list the keys: GROUP BY a, b"
FROM_HINT = "use the declared name of the stream"
UNION_FORM = "SELECT a, b FROM x UNION ALL SELECT a, b FROM y"

_PARTS: dict[tuple[type[exp.Expr], str], tuple[str, str, str]] = {
    (exp.Distinct, "on"): ("SELECT_DISTINCT", "DISTINCT ON is not supported", "use QUALIFY row_number() OVER (…) = 1"),
    (exp.Select, "hint"): ("UNSUPPORTED_HINT", "hints are not supported", "leave the hint out"),
    (exp.Select, "offset"): (
        "UNSUPPORTED_OFFSET",
        "OFFSET is not supported",
        "number the rows: QUALIFY row_number() OVER (ORDER BY n DESC) BETWEEN 6 AND 15",
    ),
    (exp.Select, "sample"): ("UNSUPPORTED_SAMPLE", "TABLESAMPLE is not supported", "use WHERE"),
    (exp.Select, "windows"): (
        "UNSUPPORTED_SYNTAX",
        "named windows are not supported",
        "write WINDOW TUMBLING (SIZE 10 SECONDS)",
    ),
    (exp.Select, "sort"): ("UNSUPPORTED_SORT", "SORT BY is not supported", "use ORDER BY"),
    (exp.Select, "cluster"): ("UNSUPPORTED_SORT", "CLUSTER BY is not supported", "use ORDER BY"),
    (exp.Select, "distribute"): ("UNSUPPORTED_SORT", "DISTRIBUTE BY is not supported", "leave it out"),
    (exp.Select, "locks"): ("UNSUPPORTED_SYNTAX", "FOR UPDATE is not supported", "leave it out"),
    (exp.Select, "into"): ("UNSUPPORTED_SYNTAX", "SELECT INTO is not supported", "name a sink in the configuration"),
    (exp.Select, "with_"): ("UNSUPPORTED_CTE", "WITH is not supported here", "write it where the query begins"),
    (exp.Select, "kind"): ("UNSUPPORTED_SYNTAX", "SELECT AS is not supported", "list the columns"),
    (exp.Select, "limit"): ("UNSUPPORTED_FETCH", "FETCH is not supported", "use LIMIT"),
    (exp.Limit, "expressions"): ("BAD_LIMIT", "LIMIT … BY is not supported", "write LIMIT 10: it holds per window"),
    (exp.Limit, "limit_options"): ("BAD_LIMIT", "LIMIT takes a number of rows only", "write LIMIT 10"),
    (exp.Ordered, "this"): ("UNSUPPORTED_SYNTAX", "ORDER BY ALL is not supported", "name the columns"),
    (exp.Ordered, "with_fill"): ("UNSUPPORTED_SYNTAX", "WITH FILL is not supported", "leave it out"),
    (exp.Group, "totals"): ("UNSUPPORTED_GROUPING", "WITH TOTALS is not supported", GROUP_HINT),
    (exp.Table, "sample"): (
        "UNSUPPORTED_SAMPLE",
        "TABLESAMPLE is not supported in FROM",
        "choose rows by a hash of a key, so that a replay chooses the same: WHERE pmod(xxhash64(id), 100) < 10",
    ),
    (exp.Table, "pivots"): (
        "UNSUPPORTED_PIVOT",
        "PIVOT is not supported in FROM",
        "use one aggregate per column: sum(x) FILTER (WHERE k = 'a') AS a; for UNPIVOT use stack in LATERAL VIEW",
    ),
    (exp.Table, "version"): (
        "UNSUPPORTED_FROM",
        "a version of a table (VERSION AS OF, FOR SYSTEM_TIME AS OF) is not supported",
        "join the static table as it is now: JOIN users u ON …",
    ),
    (exp.Table, "db"): ("UNSUPPORTED_FROM", "a name with dots is not supported in FROM", FROM_HINT),
    (exp.Table, "catalog"): ("UNSUPPORTED_FROM", "a name with dots is not supported in FROM", FROM_HINT),
    (exp.TableAlias, "this"): ("UNSUPPORTED_FROM", "FROM takes the name of a stream and an alias only", FROM_HINT),
}
"""The error for an argument that the grammar does not have: code, message, hint."""


_OF_WINDOW = (
    "compare a row with the others of its window by a window function: SELECT k, v FROM a WINDOW TUMBLING (SIZE 10 "
    "SECONDS) QUALIFY v = max(v) OVER (PARTITION BY k)"
)
_OF_ANOTHER = (
    "join a static table: SELECT a.k, t.v FROM a LEFT JOIN t ON t.k = a.k; or the results of another stream's windows: "
    "SELECT a.k, a.v, s.most FROM a JOIN (SELECT k, max(v) AS most FROM b GROUP BY k WINDOW TUMBLING (SIZE 10 "
    "SECONDS)) AS s ON s.k = a.k WINDOW TUMBLING (SIZE 10 SECONDS)"
)
_LATEST = (
    "join the rows of some time before each row, and take the latest of them: SELECT k, ts, max_by(v, at) AS v FROM "
    "(SELECT a.k, a.ts, b.v, b.ts AS at FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 10 SECONDS AND "
    "a.ts) AS j GROUP BY k, ts, tumblingwindow('ss', 10)"
)
"""Hints with queries over streams a and b and a static table t."""


def refuse_select_parts(source: SourceText, tree: exp.Expr | None) -> exp.Select:
    """The tree as a SELECT all of whose parts can run."""
    if isinstance(tree, exp.SetOperation):
        message = "INTERSECT and EXCEPT of queries are not supported"
        hint = "within a window, write a LEFT SEMI JOIN (INTERSECT) or a LEFT ANTI JOIN (EXCEPT) of the streams"
        raise source.error("UNSUPPORTED_SET_OPERATION", message, hint, at=tree.expression)
    if not isinstance(tree, exp.Select):
        raise source.error("NOT_A_SELECT", "this is not a SELECT", "write SELECT … FROM …", at=source.tokens[0])
    refuse_unread(source, tree)
    if not tree.args.get("from_"):
        raise source.error(
            "MISSING_FROM", "the query reads no stream", "write SELECT … FROM stream", at=source.tokens[0]
        )
    if not tree.expressions:
        raise source.error("SYNTAX", "nothing is selected", "write SELECT * or list the columns", at=source.tokens[0])
    return tree


def refuse_unread(source: SourceText, tree: exp.Expr) -> None:
    """Refuse a tree that holds anything the grammar does not have, so that nothing is parsed and ignored."""
    if type(tree) not in READ:
        raise _refuse_node(source, tree, tree)
    found = next(unread(tree), None)
    if found is not None:
        raise _refusal(source, found)
    for node in tree.find_all(exp.Table, exp.Subquery):
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            message = "an alias with columns is not supported"
            raise source.error("UNSUPPORTED_FROM", message, "rename in SELECT", at=alias.args["columns"][0])
    for item in tree.find_all(exp.Aliases):
        if not is_generator(item):
            message, hint = "only functions that return several rows have several names", "write one name: … AS name"
            raise source.error("UNSUPPORTED_SYNTAX", message, hint, at=item)


def _refusal(source: SourceText, found: Unread) -> SqlError:
    node, name = type(found.node), found.argument
    if node is exp.Join:
        return _refuse_join(source, found)
    if node is exp.Window:
        hint = "write OVER (PARTITION BY … ORDER BY …), or define the name: WINDOW w AS (PARTITION BY … ORDER BY …)"
        bad = f"`{source.quote(found.node)}`"
        message = f"{bad} names no window that is defined for OVER" if name == "alias" else f"{bad}: bad OVER"
        return source.error("BAD_OVER", message, hint, at=found.node)
    if (node, name) in _PARTS:
        code, message, hint = _PARTS[node, name]
        return source.error(code, message, hint, at=_place(source, found, message))
    if node is exp.Group:
        word = {True: "GROUP BY ALL", False: "GROUP BY DISTINCT"}.get(found.value is True, name.upper())
        return _grouping(source, word if name == "all" else _word_of(found.value), found.node)
    if node is exp.Star:
        return source.error("UNSUPPORTED_STAR", "only `* EXCEPT (…)` is supported", "list the columns", at=found.node)
    if node in (exp.Table, exp.TableAlias, exp.From):
        return _refuse_from(source, found)
    if isinstance(found.value, exp.Expr) and type(found.value) not in EXPRESSION:
        return _refuse_node(source, found.value, found.node)
    return _refuse_argument(source, found)


def _refuse_argument(source: SourceText, found: Unread) -> SqlError:
    """The message for an argument without a message of its own: it quotes the user's text."""
    at = found.place if source.span(found.place) else found.node
    shown = source.quote(at) or type(found.node).__name__.upper()
    word = found.argument.strip("_").replace("_", " ").upper()
    message = f"`{shown}`: {word} is not supported"
    if found.argument in ("this", "expression", "expressions"):
        message = f"`{shown}` is not allowed here"
    return source.error("UNSUPPORTED_SYNTAX", message, "leave it out", at=at if source.span(at) else source.tokens[0])


def _refuse_from(source: SourceText, found: Unread) -> SqlError:
    place = found.place if source.span(found.place) else found.node
    if found.argument in ("this", "alias"):
        hint = "FROM takes a stream: FROM bids; put the window into GROUP BY or a WINDOW clause"
        at = place if source.span(place) else _keyword(source, "FROM")
        return source.error("UNSUPPORTED_FROM", f"`{source.quote(at)}` is not allowed in FROM", hint, at=at)
    word = found.argument.strip("_").upper()
    return source.error("UNSUPPORTED_FROM", f"{word} is not supported in FROM", FROM_HINT, at=found.node)


def _refuse_join(source: SourceText, found: Unread) -> SqlError:
    word = f"{found.value} JOIN" if found.argument == "method" else f"{found.argument.strip('_').upper()} in a join"
    if found.argument == "this":
        word = f"`{source.quote(found.place)}` in a join"
    hint = _LATEST if found.value == "ASOF" else "write JOIN … ON …"
    return source.error("UNSUPPORTED_JOIN", f"{word} is not supported", hint, at=found.node)


def _place(source: SourceText, found: Unread, message: str) -> Place:
    """The part's own place, or the keyword that the message starts with."""
    if isinstance(found.value, exp.Hint):
        return next((token for token in source.tokens if token.token_type == TokenType.HINT), None)
    word = message.split(" is ", maxsplit=1)[0].removeprefix("SELECT ").split()[0]
    return _keyword(source, word) or (found.place if source.span(found.place) else source.tokens[0])


def _keyword(source: SourceText, word: str) -> Token | None:
    return next((token for token in source.tokens if token.text.upper().split()[0:1] == [word.upper()]), None)


def _word_of(value: object) -> str:
    return "GROUPING SETS" if isinstance(value, exp.GroupingSets) else type(value).__name__.upper()


def _grouping(source: SourceText, word: str, at: exp.Expr) -> SqlError:
    named = (token for token in source.tokens if token.text.upper() in (word, word.split(maxsplit=1)[0], "GROUP BY"))
    by_word = {token.text.upper(): token for token in named}
    place = by_word.get(word) or by_word.get(word.split(maxsplit=1)[0]) or by_word.get("GROUP BY") or at
    return source.error("UNSUPPORTED_GROUPING", f"{word} is not supported", GROUP_HINT, at=place)


def refuse_window(source: SourceText, item: exp.Expr) -> None:
    """Refuse a function with OVER in GROUP BY that is not a window function of ours."""
    if isinstance(item, exp.Window):
        hint = "group by a window instead: GROUP BY tumblingwindow('ss', 10)"
        raise source.error("OVER_PLACE", "a window function is not allowed in GROUP BY", hint, at=item)


def refuse_types(source: SourceText, node: exp.Expr) -> None:
    """Refuse a cast to a type that Spark does not have."""
    for part in node.find_all(exp.Cast):
        if type_name(part.args.get("to")) is None:
            raise _unknown_type(source, part)


def _unknown_type(source: SourceText, cast: exp.Cast) -> SqlError:
    to = cast.args["to"]
    # Types that Spark has not are written as ones that it has; the message must name the user's.
    shown = to.this.value if isinstance(to.this, exp.DType) and not to.expressions else render(to)
    hint = f"types are: {nearest(shown, set(SPELLINGS.values()))}"
    return source.error("UNKNOWN_TYPE", f"`{shown}` is not a type to cast to", hint, at=cast)


def _reads_same(subquery: exp.Expr) -> bool:
    """Whether a subquery reads only what the query around it reads."""
    inside = {table.name.lower() for table in subquery.find_all(exp.Table)}
    around = {table.name.lower() for table in subquery.root().find_all(exp.Table) if not _is_within(table, subquery)}
    return bool(inside) and inside <= around


def _is_within(node: exp.Expr, whole: exp.Expr) -> bool:
    while node is not whole and node.parent is not None:
        node = node.parent
    return node is whole


def _refuse_node(source: SourceText, part: exp.Expr, whole: exp.Expr) -> SqlError:
    at = part if source.span(part) else whole
    if isinstance(part, (exp.Subquery, exp.Select, exp.Exists)):
        hint = _OF_WINDOW if _reads_same(part) else _OF_ANOTHER
        return source.error("UNSUPPORTED_SUBQUERY", "a subquery is not allowed here", hint, at=at)
    if isinstance(part, (exp.Placeholder, exp.Parameter)):
        return source.error("UNSUPPORTED_SYNTAX", "parameters are not supported", "write the value itself", at=at)
    return source.error("UNSUPPORTED_SYNTAX", f"`{source.quote(at)}` is not supported", "use Spark's functions", at=at)
