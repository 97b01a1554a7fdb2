"""The tree of a query: WITH, subqueries in FROM and JOIN, UNION ALL. Each SELECT is parsed from tokens of its own.

A placeholder takes the place of each subquery, so that a SELECT is plain Spark SQL with our clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import Span, SqlError
from windowpane.sql.syntax.clauses import FROM_ENDS, ORDER
from windowpane.sql.syntax.select import parse_select
from windowpane.sql.syntax.source import PLACEHOLDER, SourceText, closings, nesting
from windowpane.sql.syntax.statement import SelectStmt, Statement, UnionStmt
from windowpane.sql.syntax.table_functions import with_joined_functions
from windowpane.sql.syntax.transform_texts import TransformText

MAX_SELECTS = 500
"""More would only come from common table expressions that read each other several times."""
_OTHERWISE = {
    "INSERT": "name the sink in the configuration: [transforms.NAME] with `sql` and `sink`",
    "CREATE": "declare streams, tables and sinks in the configuration, and write only the SELECT",
    "VALUES": "declare the rows as a static table in the configuration",
    **dict.fromkeys(("UPDATE", "DELETE", "MERGE"), 'a sink with `mode = "update"` replaces earlier results'),
}
"""What to do instead of other statements."""
WITH_FORM = "WITH name AS (SELECT …) SELECT … FROM name"


def parse_statement(
    source: SourceText, transforms: Sequence[TransformText] = (), name: str = "", sources: Collection[str] = ()
) -> SelectStmt:
    """The statement of a text, with the queries that it reads. `transforms` are those that it can read by name.

    `sources` are the names of streams and tables, in lower case.
    """
    names = Counter([*sources, *(each.name.lower() for each in transforms)])
    ambiguous = {each for each, count in names.items() if count > 1}
    parser, visible = _QueryParser(source.sql, [name], ambiguous), dict[str, _Cte]()
    for each in transforms:
        visible[each.name.lower()] = _Cte(each.tokens[0], each.tokens, visible, {}, transform=each.name)
    found = parser.query(source.tokens, visible, source.tokens[-1])
    stmt = found if isinstance(found, SelectStmt) else _over_union(source, found)
    return replace(stmt, transforms=tuple(parser.transforms), reads=tuple(parser.reads))


def _over_union(source: SourceText, union: UnionStmt) -> SelectStmt:
    """A UNION ALL at the top level is a plain query over its rows."""
    star, table = exp.Star(), exp.Table(this=exp.Identifier(this=PLACEHOLDER))
    star.meta.update(start=union.span.start, end=union.span.end - 1)
    return SelectStmt(source, (star,), table, queries={PLACEHOLDER: union})


@dataclass
class _Cte:
    """A common table expression: parsed anew wherever it is read, because binding changes syntax trees."""

    name: Token
    tokens: list[Token]
    outside: Mapping[str, _Cte]
    """Those that the whole WITH can read."""
    siblings: Mapping[str, _Cte]
    """Those of the same WITH, in order."""
    transform: str = ""
    """The name of a transform, whose query is read like a common table expression."""
    reads: int = 0

    @property
    def visible(self) -> Mapping[str, _Cte]:
        """Those that it can read itself: of its siblings, the earlier ones."""
        earlier = takewhile(lambda each: each[1] is not self, self.siblings.items())
        return {**self.outside, **dict(earlier)}


@dataclass
class _QueryParser:
    """Parses the queries of one text. `visible` are the common table expressions that a query can name."""

    sql: str
    path: list[str]
    """The transform whose query this is, and those on the way to the text that is being parsed."""
    ambiguous: Collection[str]
    """Names of several transforms, or of a transform and a stream or table."""
    selects: int = field(default=0)
    transforms: dict[str, None] = field(default_factory=dict)
    """The transforms that the query reads itself."""
    reads: dict[str, None] = field(default_factory=dict)
    """The streams and tables that it reads itself."""

    def query(self, tokens: list[Token], visible: Mapping[str, _Cte], before: Token) -> Statement:
        """The query of some tokens; `before` is the place to name if there are none."""
        own, body = self._with(tokens, visible)
        branches = self._branches(body, {**visible, **own}, before)
        for cte in own.values():
            if not cte.reads:
                message = f"nothing reads `{cte.name.text}`"
                raise self._error("UNREAD_CTE", message, "leave it out, or name it in FROM", cte.name)
        if len(branches) == 1:
            return branches[0]
        return UnionStmt(SourceText(self.sql, body), tuple(branches), Span(body[0].start, body[-1].end + 1))

    def _error(self, code: str, message: str, hint: str, at: Token) -> SqlError:
        return SourceText(self.sql, [at]).error(code, message, hint, at=at)

    def _with(self, tokens: list[Token], visible: Mapping[str, _Cte]) -> tuple[dict[str, _Cte], list[Token]]:
        """The expressions of WITH and the tokens after it."""
        found: dict[str, _Cte] = {}
        if not tokens or tokens[0].token_type != TokenType.WITH:
            return found, tokens
        closed_at, index = closings(tokens), 0
        while index == 0 or (index < len(tokens) and tokens[index].token_type == TokenType.COMMA):
            name, closing = self._cte(tokens, index + 1, closed_at)
            if name.text.lower() in found:
                hint = "give it another name"
                raise self._error("DUPLICATE_ALIAS", f"`{name.text}` is the name of two queries", hint, name)
            found[name.text.lower()] = _Cte(name, tokens[index + 4 : closing], visible, found)
            index = closing + 1
        return found, tokens[index:]

    def _cte(self, whole: list[Token], start: int, closed_at: Mapping[int, int]) -> tuple[Token, int]:
        """`name AS (query)`: the name, and where the query ends."""
        tokens, before = whole[start : start + 3], whole[start - 1]
        words = [token.token_type for token in tokens]
        if words[:1] == [TokenType.RECURSIVE]:
            message = "WITH RECURSIVE is not supported"
            hint = "a stream cannot be read by itself; write each step as a query of its own: WITH a AS (…), b AS (…)"
            raise self._error("UNSUPPORTED_CTE", message, hint, tokens[0])
        if words[1:2] == [TokenType.L_PAREN]:
            message = "a list of columns after a name in WITH is not supported"
            raise self._error("UNSUPPORTED_CTE", message, "rename in SELECT: … AS name", tokens[1])
        if words[1:] != [TokenType.ALIAS, TokenType.L_PAREN]:
            at = (tokens or [before])[0]
            raise self._error("SYNTAX", "WITH needs names of queries", f"write {WITH_FORM}", at)
        closing = closed_at.get(start + 2)
        if closing is None:
            raise self._unclosed(tokens[2])
        return tokens[0], closing

    def _unclosed(self, token: Token) -> SqlError:
        return self._error("SYNTAX", "the parenthesis is not closed", "close it", token)

    def _branches(self, tokens: list[Token], visible: Mapping[str, _Cte], before: Token) -> list[SelectStmt]:
        """The queries of a UNION ALL, or the only one. A union in parentheses is part of the union around it."""
        parts, branches = list(self._union_parts(tokens, before)), list[SelectStmt]()
        for part in parts:
            inner = _unwrapped(part) or part
            if len(inner) < len(part) and TokenType.UNION in _outermost(inner):
                branches += self._branches(inner, visible, part[0])
            else:
                branches.append(self._select(inner, visible))
        if len(parts) > 1 and (_unwrapped(parts[-1]) or parts[-1]) == parts[-1]:
            _check_order(branches[-1])
        return branches

    def _union_parts(self, tokens: list[Token], before: Token) -> Iterator[list[Token]]:
        """The queries between UNION ALL."""
        depth, start = nesting(tokens), 0
        for index, token in enumerate(tokens):
            if depth[index] == 0 and token.token_type == TokenType.UNION:
                following = tokens[index + 1 : index + 2]
                if not following or following[0].token_type != TokenType.ALL:
                    message = "UNION removes duplicates, which needs all rows"
                    raise self._error("UNSUPPORTED_SET_OPERATION", message, "write UNION ALL", token)
                yield self._some(tokens[start:index], token)
                start = index + 2
        yield self._some(tokens[start:], tokens[start - 1] if start else before)

    def _some(self, tokens: list[Token], before: Token) -> list[Token]:
        if not tokens:
            raise self._error("SYNTAX", "a query is missing", f"write {ORDER}", before)
        return tokens

    def _select(self, tokens: list[Token], visible: Mapping[str, _Cte]) -> SelectStmt:
        if tokens[0].token_type != TokenType.SELECT:
            message = f"a query starts with SELECT, not `{tokens[0].text}`"
            hint = _OTHERWISE.get(tokens[0].text.upper(), f"write {ORDER}")
            raise self._error("NOT_A_SELECT", message, hint, tokens[0])
        self.selects += 1
        if self.selects > MAX_SELECTS:
            message = f"the query has more than {MAX_SELECTS} SELECTs"
            raise self._error("TOO_DEEP", message, "a query in WITH counts each time it is read", tokens[0])
        shown, queries = self._without_subqueries(with_joined_functions(tokens), visible)
        stmt = parse_select(SourceText(self.sql, shown))
        for table in (stmt.from_, *(join.this for join in stmt.joins)):
            cte = visible.get(table.name.lower()) if isinstance(table, exp.Table) else None
            if cte is not None and cte.transform and not self._is_source(cte):
                queries[table.name.lower()] = self._transform(cte, stmt.source, table)
            elif cte is not None and not cte.transform:
                cte.reads += 1
                queries[table.name.lower()] = self.query(cte.tokens, cte.visible, cte.name)
            elif isinstance(table, exp.Table) and table.name not in queries and len(self.path) == 1:
                self.reads[table.name] = None
        return replace(stmt, queries=queries, owner=self.path[-1] if len(self.path) > 1 else "")

    def _is_source(self, cte: _Cte) -> bool:
        """A transform that has the name of a stream means the stream: it cannot read itself."""
        return cte.transform == self.path[-1] and cte.transform.lower() in self.ambiguous

    def _transform(self, cte: _Cte, source: SourceText, table: exp.Expr) -> Statement:
        """The query of a transform that a table of FROM names."""
        if cte.transform.lower() in self.ambiguous:
            message = f"`{table.name}` is the name of a transform, and of a stream, a table or another transform"
            raise source.error("DUPLICATE_NAME", message, "rename one of them", at=table)
        if cte.transform in self.path:
            path = " → ".join([*self.path[self.path.index(cte.transform) :], cte.transform])
            message = f"transforms read each other in a circle: {path}"
            raise source.error("TRANSFORM_CYCLE", message, "let one of them read a stream", at=table)
        if len(self.path) == 1:
            self.transforms[cte.transform] = None
        self.path.append(cte.transform)
        found = self.query(cte.tokens, cte.visible, cte.name)
        self.path.pop()
        return found

    def _without_subqueries(
        self, tokens: list[Token], visible: Mapping[str, _Cte]
    ) -> tuple[list[Token], dict[str, Statement]]:
        """The tokens with a placeholder for each subquery of FROM and JOIN, IN and EXISTS, and the subqueries."""
        shown: list[Token] = []
        queries: dict[str, Statement] = {}
        depth, closed_at, index, lists = nesting(tokens), closings(tokens), 0, False
        while index < len(tokens):
            token = tokens[index]
            if depth[index] == 0:
                lists = _begins_from(shown, token) or (lists and token.token_type not in FROM_ENDS)
            in_from = depth[index] == 1 and _takes_query(shown, lists=lists)
            if token.token_type == TokenType.L_PAREN and (in_from or _takes_condition(shown)):
                closing = closed_at.get(index)
                if closing is None:
                    raise self._unclosed(token)
                inner = _inside(tokens, index + 1, closing, closed_at)
                if _is_query(inner):
                    name = f"{PLACEHOLDER}{len(queries)}"
                    queries[name] = self.query(inner, visible, token)
                    end = tokens[closing].end
                    placeholder = Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, end)
                    shown += [placeholder] if in_from else [token, placeholder, tokens[closing]]
                    index = closing + 1
                    continue
            shown.append(token)
            index += 1
        return shown, queries


def _is_query(tokens: list[Token]) -> bool:
    """Whether tokens are a query: its first branch may be in parentheses."""
    if not tokens or tokens[0].token_type != TokenType.L_PAREN:
        return bool(tokens) and tokens[0].token_type in (TokenType.SELECT, TokenType.WITH)
    return TokenType.UNION in _outermost(tokens)


def _outermost(tokens: list[Token]) -> list[TokenType]:
    """The kinds of tokens that are in no parentheses."""
    return [token.token_type for token, depth in zip(tokens, nesting(tokens), strict=True) if depth == 0]


def _check_order(last: SelectStmt) -> None:
    """What follows the last branch of a UNION ALL without parentheses is about all rows, and a stream has no end."""
    found = {"ORDER BY": last.order_span, "LIMIT": last.limit_span}
    for clause, span in found.items():
        if span is not None:
            raise last.source.error(
                "UNSUPPORTED_SET_OPERATION", f"{clause} after a UNION ALL is about the rows of all branches",
                "for the last branch alone, put it in parentheses: … UNION ALL (SELECT … ORDER BY n LIMIT 3); for the "
                "results of all: SELECT … FROM (… UNION ALL …) AS u GROUP BY … WINDOW … ORDER BY n LIMIT 3", at=span,
            )  # fmt: skip


def _unwrapped(tokens: list[Token]) -> list[Token]:
    """The tokens without parentheses around all of them."""
    return _inside(tokens, 0, len(tokens), closings(tokens))


def _inside(tokens: list[Token], start: int, end: int, closed_at: Mapping[int, int]) -> list[Token]:
    """Those of a range that are left without parentheses around all of it."""
    while start < end and tokens[start].token_type == TokenType.L_PAREN and closed_at.get(start) == end - 1:
        start, end = start + 1, end - 1
    return tokens[start:end]


def _takes_query(before: list[Token], *, lists: bool) -> bool:
    """Whether the tokens end where FROM or JOIN takes a query. `lists`: a comma separates tables there."""
    kinds = [token.token_type for token in before[-2:]]
    if kinds[-1:] == [TokenType.COMMA]:
        return lists
    return kinds[-1:] == [TokenType.JOIN] or (bool(before) and _begins_from(before[:-1], before[-1]))


def _begins_from(before: list[Token], token: Token) -> bool:
    """Whether a token is the FROM of a query and not that of IS DISTINCT FROM."""
    return token.token_type == TokenType.FROM and (not before or before[-1].token_type != TokenType.DISTINCT)


def _takes_condition(before: list[Token]) -> bool:
    """Whether the tokens end where a subquery is a condition."""
    return bool(before) and before[-1].token_type in (TokenType.IN, TokenType.EXISTS)
