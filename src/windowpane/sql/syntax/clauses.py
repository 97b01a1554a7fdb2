"""Our clauses (WINDOW, WATERMARK, EMIT): found in the tokens and cut out, so that what is left is plain Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import KINDS, CalendarSpan
from windowpane.sql.syntax.source import SourceText, nesting
from windowpane.time import unit_to_us

DURATION_FUNCTIONS = ("window", "session_window", "tumble", "hop", "cumulate", "session")
ORDER = "SELECT … FROM … WHERE … GROUP BY … HAVING … WINDOW … WATERMARK … EMIT … ORDER BY … LIMIT …"

_EARLIER = {TokenType.WHERE: "WHERE", TokenType.GROUP_BY: "GROUP BY", TokenType.HAVING: "HAVING"}
_AFTER = {
    TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.UNION, TokenType.INTERSECT,
    TokenType.EXCEPT, TokenType.QUALIFY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY,
    *_EARLIER,
}  # fmt: skip
FROM_ENDS = {*_AFTER, TokenType.LATERAL, TokenType.WINDOW}
# After one of these an operand must follow, so what comes next is a name and not the start of a clause.
_OPENERS = {
    TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
    TokenType.ON, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.COMMA, TokenType.DOT, TokenType.ALIAS,
    TokenType.L_PAREN, TokenType.JOIN, TokenType.BETWEEN, TokenType.WHEN, TokenType.THEN, TokenType.ELSE,
    TokenType.CASE, TokenType.IN, TokenType.LIKE, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.GT,
    TokenType.LTE, TokenType.GTE, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD,
    TokenType.DPIPE, TokenType.DISTINCT,
}  # fmt: skip


def with_window_functions(tokens: list[Token]) -> list[Token]:
    """Tokens in which the parser can read our functions.

    WINDOW opens a clause in SQL; before a parenthesis it is Spark's function and becomes a plain name. A duration
    without INTERVAL (`window(ts, 10 SECONDS)`) gets it.
    """
    found: list[Token] = []
    for token, after in zip_longest(tokens, tokens[1:]):
        if token.token_type == TokenType.WINDOW and after is not None and after.token_type == TokenType.L_PAREN:
            found.append(_like(token, TokenType.VAR, token.text))
            continue
        before = [each.token_type for each in found[-1:]]
        if token.token_type == TokenType.NUMBER and before == [TokenType.COMMA] and _is_unit(after) and _in_call(found):
            found.append(_like(token, TokenType.INTERVAL, "INTERVAL"))
        found.append(token)
    return found


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


def _is_unit(token: Token | None) -> bool:
    if token is None or token.token_type != TokenType.VAR:
        return False
    return unit_to_us(token.text) is not None or CalendarSpan.read(1, token.text) is not None


def _in_call(before: list[Token]) -> bool:
    """Whether the innermost call that is open takes durations."""
    depth = 0
    for index in range(len(before) - 1, 0, -1):
        depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(before[index].token_type, 0)
        if depth < 0:
            return before[index - 1].text.lower() in DURATION_FUNCTIONS
    return False


@dataclass(frozen=True)
class Clauses:
    """The query's tokens without our clauses, and each clause's own tokens."""

    query: list[Token]
    window: list[Token]
    watermark: list[Token]
    emit: list[Token]


def split_clauses(source: SourceText) -> Clauses:
    """Cut our clauses out of a query; each may stand once, after HAVING, in any order."""
    tokens, depth = source.tokens, nesting(source.tokens)
    found: dict[str, list[Token]] = {"WINDOW": [], "WATERMARK": [], "EMIT": []}
    query: list[Token] = []
    target, seen_from = query, False
    for index, token in enumerate(tokens):
        if depth[index] == 0 or (depth[index] == 1 and token.token_type == TokenType.L_PAREN):
            seen_from = seen_from or token.token_type == TokenType.FROM
            word = _clause_at(tokens, index) if seen_from else None
            if word is not None:
                if found[word]:
                    hint = "leave one of them out"
                    raise source.error("DUPLICATE_CLAUSE", f"a second {word} clause", hint, at=token)
                target = found[word]
            elif token.token_type in _AFTER and target is not query:
                _check_order(source, token)
                target = query
        target.append(token)
    return Clauses(query, found["WINDOW"], found["WATERMARK"], found["EMIT"])


def _check_order(source: SourceText, token: Token) -> None:
    if token.token_type in _EARLIER:
        word = _EARLIER[token.token_type]
        message = f"{word} stands after a WINDOW, WATERMARK or EMIT clause"
        raise source.error("CLAUSE_ORDER", message, f"the order is {ORDER}", at=token)


def _clause_at(tokens: list[Token], index: int) -> str | None:
    """The clause that starts here. Its words are no reserved ones: they may also be names of columns and streams."""
    word = tokens[index].text.upper()
    if word not in ("WINDOW", "WATERMARK", "EMIT") or tokens[index].token_type == TokenType.IDENTIFIER:
        return None
    if tokens[index].token_type == TokenType.STRING or tokens[index - 1].token_type in _OPENERS:
        return None
    following = tokens[index + 1 : index + 3]
    if word == "WATERMARK":
        starts = bool(following) and following[0].token_type == TokenType.L_PAREN
    elif word == "WINDOW":
        starts = bool(following) and _names_window(following)
    else:
        starts = bool(following) and (following[0].token_type == TokenType.ON or _is_word(following[0]))
    return word if starts else None


def _names_window(following: list[Token]) -> bool:
    kind = KINDS.get(following[0].text.lower())
    if kind is not None and kind.parts and following[0].token_type != TokenType.STRING:
        return True
    named = len(following) == 2 and following[1].token_type in (TokenType.L_PAREN, TokenType.ALIAS)
    return named and following[0].token_type == TokenType.VAR


def _is_word(token: Token) -> bool:
    return token.text.upper() in ("EVERY", "CHANGES", "FINAL", "UPDATE", "AFTER", "WITH", "WITHOUT") or (
        token.token_type == TokenType.VAR and token.text.upper() not in ("WATERMARK", "EMIT")
    )


def refuse_unseen(source: SourceText, tokens: list[Token]) -> None:
    """Constructs that the parser would fold into others without a trace."""
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.PIPE_GT:
            raise source.error("UNSUPPORTED_SYNTAX", "`|>` is not supported", f"write {ORDER}", at=token)
        if token.text.upper() == "MATCH_RECOGNIZE" and _text(tokens[index + 1 : index + 2]) == "(":
            message, hint = (
                "MATCH_RECOGNIZE is not supported",
                (
                    "for a run of rows from one condition to another use GROUP BY statewindow(open, emit) OVER "
                    "(PARTITION BY k), for rows close in time a session window"
                ),
            )
            raise source.error("UNSUPPORTED_MATCH", message, hint, at=token)


def _text(following: list[Token]) -> str:
    return following[0].text.upper() if following else ""
