"""`rank() OVER w … WINDOW w AS (PARTITION BY k ORDER BY n)`: the definition takes the place of the name.

A name of the stream's own window, `WINDOW w AS (TUMBLING (…))`, is not read here.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import KINDS
from windowpane.sql.syntax.clause_parts import parenthesised
from windowpane.sql.syntax.source import SourceText, nesting

FORM = "WINDOW w AS (PARTITION BY k ORDER BY n)"
Definitions = dict[str, tuple[Token, list[Token]]]
"""By name in lower case: the name, and the tokens in its parentheses."""


def take_named_windows(source: SourceText) -> SourceText:
    """The source without definitions of windows for OVER. Tokens in place of a name have the place of the name."""
    parted = replace(source, tokens=_parted(source.tokens))
    start = _start(parted.tokens)
    if start is None:
        return source
    source = parted
    defined, rest = _definitions(source, source.tokens[start + 1 :])
    tokens: list[Token] = []
    used: set[str] = set()
    for token in (*source.tokens[:start], *rest):
        name = token.text.lower()
        if name in defined and tokens and tokens[-1].token_type == TokenType.OVER:
            used.add(name)
            inner = defined[name][1]
            tokens += [_at(token, TokenType.L_PAREN, "("), *(_at(token, each.token_type, each.text) for each in inner)]
            tokens.append(_at(token, TokenType.R_PAREN, ")"))
        else:
            tokens.append(token)
    for name, (token, _) in defined.items():
        if name not in used:
            hint = f"write OVER {token.text}, without parentheses, or leave the definition out"
            raise source.error("BAD_OVER", f"nothing uses the window `{token.text}`", hint, at=token)
    return take_named_windows(replace(source, tokens=tokens))


def _parted(tokens: list[Token]) -> list[Token]:
    """`WINDOW w AS (TUMBLING (…)), v AS (ORDER BY n)` as two clauses: one of the stream's window, and one for OVER."""
    depth, shown, for_over = nesting(tokens), list[Token](), None
    for index, token in enumerate(tokens):
        following, kind = tokens[index + 1 : index + 5], token.token_type
        is_first, is_next = kind == TokenType.WINDOW, kind == TokenType.COMMA and for_over is not None
        if depth[index] == 0 and (is_first or is_next) and _is_named(following):
            parts = is_next and not (for_over and _defines(following))
            for_over = _defines(following)
            shown.append(_at(token, TokenType.WINDOW, "WINDOW") if parts else token)
        else:
            shown.append(token)
    return shown


def _start(tokens: list[Token]) -> int | None:
    """Where a WINDOW clause begins that defines windows for OVER."""
    depth = nesting(tokens)
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.WINDOW and depth[index] == 0 and _defines(tokens[index + 1 : index + 5]):
            return index
    return None


def _is_named(following: list[Token]) -> bool:
    return [token.token_type for token in following[1:3]] == [TokenType.ALIAS, TokenType.L_PAREN]


def _defines(following: list[Token]) -> bool:
    """Whether a window for OVER is defined here, and not the window of the stream."""
    if not _is_named(following):
        return False
    kind = KINDS.get(following[3].text.lower()) if len(following) > 3 else None
    return kind is None or not kind.parts


def _definitions(source: SourceText, tokens: list[Token]) -> tuple[Definitions, list[Token]]:
    """The definitions, separated by commas, and what follows them."""
    found: Definitions = {}
    while True:
        if not _defines(tokens[:4]):
            at = tokens[0] if tokens else source.tokens[-1]
            raise source.error("SYNTAX", "the definition of a window is expected", f"write {FORM}", at=at)
        name = tokens[0]
        if name.text.lower() in found:
            raise source.error("DUPLICATE_CLAUSE", f"a second window `{name.text}`", "leave one of them out", at=name)
        inner, tokens = parenthesised(source, tokens[2:], FORM)
        found[name.text.lower()] = (name, inner)
        if not tokens or tokens[0].token_type != TokenType.COMMA:
            return found, tokens
        tokens = tokens[1:]


def _at(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end, [])
