"""What Spark's syntax has and this engine does not run: refused by allow-lists, so that nothing is dropped unseen."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from windowpane.errors import SqlError, nearest
from windowpane.sql.dialect import render
from windowpane.sql.source import Place, SourceText
from windowpane.sql.types import SPELLINGS, type_name

_SELECT_PARTS = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}
_PART_CODES = {
    "distinct": ("SELECT_DISTINCT", "SELECT DISTINCT is not supported", "put the columns into GROUP BY"),
    "qualify": ("UNSUPPORTED_QUALIFY", "QUALIFY is not supported", "use HAVING, or ORDER BY with LIMIT"),
    "laterals": (
        "UNSUPPORTED_LATERAL",
        "LATERAL VIEW is not supported",
        "explode the rows in a table or source before",
    ),
    "hint": ("UNSUPPORTED_HINT", "hints are not supported", "leave the hint out"),
    "offset": ("UNSUPPORTED_OFFSET", "OFFSET is not supported", "use ORDER BY with LIMIT"),
    "sample": ("UNSUPPORTED_SAMPLE", "TABLESAMPLE is not supported", "use WHERE"),
    "windows": ("UNSUPPORTED_SYNTAX", "named windows are not supported", "write WINDOW TUMBLING (SIZE 10 SECONDS)"),
    "sort": ("UNSUPPORTED_SORT", "SORT BY is not supported", "use ORDER BY"),
    "cluster": ("UNSUPPORTED_SORT", "CLUSTER BY is not supported", "use ORDER BY"),
    "distribute": ("UNSUPPORTED_SORT", "DISTRIBUTE BY is not supported", "leave it out"),
    "locks": ("UNSUPPORTED_SYNTAX", "FOR UPDATE is not supported", "leave it out"),
    "into": ("UNSUPPORTED_SYNTAX", "SELECT INTO is not supported", "name a sink in the configuration"),
    "with_": ("UNSUPPORTED_CTE", "WITH is not supported", "write the query without WITH"),
    "kind": ("UNSUPPORTED_SYNTAX", "SELECT AS is not supported", "list the columns"),
}
_GROUP_CODES = {
    "rollup": "ROLLUP",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "all": "GROUP BY ALL",
    "totals": "WITH TOTALS",
}

_SYNTAX = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Anonymous, exp.Var, exp.Star,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.Concat, exp.BitwiseAnd,
    exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.And, exp.Or,
    exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In,
    exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Any, exp.All, exp.Tuple, exp.Case, exp.If,
    exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Interval, exp.IntervalSpan,
    exp.Extract, exp.Trim, exp.Substring, exp.Overlay, exp.StrPosition, exp.Bracket, exp.Dot, exp.Lambda, exp.Kwarg,
    exp.Alias, exp.Distinct, exp.Filter, exp.Where, exp.IgnoreNulls, exp.RespectNulls, exp.HexString, exp.AtTimeZone,
    exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.SessionUser, exp.Collate, exp.Slice,
)  # fmt: skip
_ALLOWED = frozenset(_SYNTAX)


def refuse_select_parts(source: SourceText, tree: exp.Expr | None) -> exp.Select:
    """The tree as a SELECT of which every part is one that is run."""
    if isinstance(tree, exp.SetOperation):
        hint = "a UNION ALL of streams stands as a subquery: FROM (SELECT … UNION ALL SELECT …) AS u"
        message = "UNION, INTERSECT and EXCEPT of queries are not supported"
        raise source.error("UNSUPPORTED_SET_OPERATION", message, hint, at=tree.expression)
    if not isinstance(tree, exp.Select):
        raise source.error("NOT_A_SELECT", "this is not a SELECT", "write SELECT … FROM …", at=source.tokens[0])
    for name, part in tree.args.items():
        if part and name not in _SELECT_PARTS:
            raise _refuse_part(source, name, part)
    if not tree.args.get("from_"):
        raise source.error(
            "MISSING_FROM", "the query reads no stream", "write SELECT … FROM stream", at=source.tokens[0]
        )
    if not tree.expressions:
        raise source.error("SYNTAX", "nothing is selected", "write SELECT * or list the columns", at=source.tokens[0])
    if isinstance(tree.args.get("limit"), exp.Fetch):
        raise source.error("UNSUPPORTED_FETCH", "FETCH is not supported", "use LIMIT", at=_place(source, None, "FETCH"))
    _refuse_group_parts(source, tree.args.get("group"))
    return tree


def _refuse_part(source: SourceText, name: str, part: object) -> SqlError:
    code, message, hint = _PART_CODES.get(
        name, ("UNSUPPORTED_SYNTAX", f"{name.strip('_').upper()} is not supported", "leave it out")
    )
    return source.error(code, message, hint, at=_place(source, part, message))


def _place(source: SourceText, part: object, message: str) -> Place:
    """The part's own place, or the keyword that the message starts with."""
    if isinstance(part, exp.Hint):
        return next((token for token in source.tokens if token.token_type == TokenType.HINT), None)
    keyword = message.split(" is ", maxsplit=1)[0].removeprefix("SELECT ").split()[0].upper()
    for token in source.tokens:
        if token.text.upper().split()[0:1] == [keyword]:
            return token
    first = part[0] if isinstance(part, list) and part else part
    return first if isinstance(first, exp.Expr) and source.span(first) else source.tokens[0]


def _refuse_group_parts(source: SourceText, group: exp.Expr | None) -> None:
    if group is None:
        return
    for name, part in group.args.items():
        if part and name != "expressions":
            raise _grouping_sets(source, _GROUP_CODES.get(name, name.upper()), group)
    for item in group.expressions:
        if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
            word = "GROUPING SETS" if isinstance(item, exp.GroupingSets) else item.key.upper()
            raise _grouping_sets(source, word, item)


def _grouping_sets(source: SourceText, word: str, at: exp.Expr) -> SqlError:
    named = (token for token in source.tokens if token.text.upper() in (word, word.split(maxsplit=1)[0], "GROUP BY"))
    by_word = {token.text.upper(): token for token in named}
    place = by_word.get(word) or by_word.get(word.split(maxsplit=1)[0]) or by_word.get("GROUP BY") or at
    return source.error("UNSUPPORTED_GROUPING", f"{word} is not supported", "list the keys: GROUP BY a, b", at=place)


def refuse_syntax(source: SourceText, node: exp.Expr) -> None:
    """Refuse a scalar expression that contains anything not on the allow-list."""
    for part in node.walk():
        if type(part) not in _ALLOWED:
            raise _refuse_node(source, part, node)
        if isinstance(part, exp.Cast) and type_name(part.args.get("to")) is None:
            raise _unknown_type(source, part)


def _unknown_type(source: SourceText, cast: exp.Cast) -> SqlError:
    to = cast.args["to"]
    # Types that Spark has not are written as ones that it has; the message must name the user's.
    shown = to.this.value if isinstance(to.this, exp.DType) and not to.expressions else render(to)
    hint = f"types are: {nearest(shown, set(SPELLINGS.values()))}"
    return source.error("UNKNOWN_TYPE", f"`{shown}` is not a type to cast to", hint, at=cast)


def _refuse_node(source: SourceText, part: exp.Expr, whole: exp.Expr) -> SqlError:
    at = part if source.span(part) else whole
    if isinstance(part, (exp.Subquery, exp.Select, exp.Exists)):
        hint = "join a static table instead; a UNION ALL of streams may stand in FROM"
        return source.error("UNSUPPORTED_SUBQUERY", "a subquery cannot stand here", hint, at=at)
    if isinstance(part, exp.Window):
        hint = "group by a window instead: GROUP BY tumblingwindow('ss', 10)"
        return source.error(
            "UNSUPPORTED_OVER", f"`{source.quote(at)}`: functions with OVER are not supported", hint, at=at
        )
    if isinstance(part, exp.WithinGroup):
        hint = "write percentile(x, 0.5)"
        return source.error("UNSUPPORTED_SYNTAX", "WITHIN GROUP is not supported", hint, at=at)
    if isinstance(part, (exp.Placeholder, exp.Parameter)):
        return source.error("UNSUPPORTED_SYNTAX", "parameters are not supported", "write the value itself", at=at)
    return source.error("UNSUPPORTED_SYNTAX", f"`{source.quote(at)}` is not supported", "use Spark's functions", at=at)
