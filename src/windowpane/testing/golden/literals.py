"""Reads one value of a golden file's table: a word, a quoted string, a list or a struct."""

from __future__ import annotations

from windowpane.testing.golden.values import Literal, bare_value


def parse_literal(text: str) -> Literal:
    """A cell of a table: a word, a number, an instant, a quoted string, a list or a struct; ValueError if broken."""
    reader = _Reader(text)
    literal = reader.value()
    if reader.rest():
        raise ValueError(f"`{reader.rest()}` stands after `{literal.text}`")
    return literal


class _Reader:
    """Reads one value; inside brackets a bare word ends at a comma or a bracket."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def value(self, stops: str = "") -> Literal:
        self._skip()
        start = self._at
        match self._text[start : start + 1]:
            case "'":
                return self._string()
            case "[":
                items = [item for _, item in self._items("]")]
                return Literal(self._text[start : self._at], items)
            case "{":
                fields = dict(self._items("}"))
                return Literal(self._text[start : self._at], fields)
        while self._at < len(self._text) and self._text[self._at] not in stops:
            self._at += 1
        word = self._text[start : self._at].strip()
        if not word:
            raise ValueError("a value is missing")
        return Literal(word, bare_value(word))

    def _skip(self) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1

    def _string(self) -> Literal:
        end = self._at + 1
        while True:
            end = self._text.find("'", end)
            if end < 0:
                raise ValueError("a quoted string has no end")
            if self._text[end : end + 2] != "''":
                break
            end += 2
        content = self._text[self._at + 1 : end].replace("''", "'")
        self._at = end + 1
        return Literal(content, content, quoted=True)

    def _items(self, closing: str) -> list[tuple[str, Literal]]:
        """`a, b]` or `name: a, name: b}`, from behind the opening bracket through the closing one."""
        self._at += 1
        items: list[tuple[str, Literal]] = []
        while True:
            self._skip()
            if self._text[self._at : self._at + 1] == closing:
                self._at += 1
                return items
            name = self._name() if closing == "}" else ""
            items.append((name, self.value(f",{closing}")))
            self._skip()
            follows = self._text[self._at : self._at + 1]
            if follows not in (",", closing) or not follows:
                raise ValueError(f"`,` or `{closing}` is missing after `{items[-1][1].text}`")
            self._at += follows == ","

    def _name(self) -> str:
        name, colon, _ = self._text[self._at :].partition(":")
        if not colon:
            raise ValueError("a struct is written {name: value, name: value}")
        self._at += len(name) + 1
        return name.strip()
