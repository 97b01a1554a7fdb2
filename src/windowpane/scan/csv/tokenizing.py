"""Divides one line of a CSV file into fields, character by character, as univocity's parser does for Spark.

Only lines with unusual quotes come here. The names are those of univocity's CsvParser, whose handling of quotes that
are neither escaped nor at the end of a field is not described anywhere else.
"""

from __future__ import annotations

from windowpane.scan.csv.dialect import NONE, Dialect

_COMMENT = "#"
"""Univocity's mark of comments. Spark turns comments off, but the parser still knows the mark."""


def fields_of(line: str, dialect: Dialect) -> list[str | None]:
    """The fields of a line that is not blank. None: an empty field without quotes."""
    parser = _Parser(line, dialect)
    try:
        parser.parse_record()
    except _EndOfLine:
        parser.finish()
    return parser.fields


class _EndOfLine(Exception):  # noqa: N818  # not an error
    """There is no further character."""


class _Parser:
    def __init__(self, line: str, dialect: Dialect) -> None:
        self.fields: list[str | None] = []
        self._line, self._at = line, 0
        self._separator, self._quote, self._escape = dialect.separator, dialect.quote, dialect.escape
        self._escape_escape = dialect.escapes_itself
        self._value: list[str] = []
        self._ch = self._prev = NONE
        self._unescaped = False

    def _next(self) -> str:
        if self._at >= len(self._line):
            raise _EndOfLine
        found = self._line[self._at]
        self._at += 1
        return found

    def _value_parsed(self) -> None:
        self.fields.append("".join(self._value))
        self._value.clear()

    def _append_until(self, *stops: str) -> None:
        """At the end of the line, `_ch` stays as it is."""
        ch = self._ch
        while ch not in stops:
            self._value.append(ch)
            ch = self._next()
        self._ch = ch

    def parse_record(self) -> None:
        self._ch = self._next()
        while True:
            if self._ch == self._separator:
                self.fields.append(None)
            else:
                self._unescaped, self._prev = False, NONE
                if self._ch == self._quote != NONE:
                    if self._is_plainly_quoted():
                        continue
                    self._parse_quoted_value()
                else:
                    self._append_until(self._separator)
                self._value_parsed()
            self._ch = self._next()

    def _is_plainly_quoted(self) -> bool:
        """Take a value that ends with a quote before a separator, and has no quotes or escapes inside."""
        end = self._line.find(self._quote, self._at)
        if end < 0 or end + 1 >= len(self._line) or self._line[end + 1] != self._separator:
            return False
        value = self._line[self._at : end]
        if self._line[end - 1] == self._escape:
            return False
        if self._escape + self._quote in value or (self._escape + self._escape_escape) in value:
            return False
        self.fields.append(value)
        self._at = end + 2
        try:
            self._ch = self._next()
        except _EndOfLine:
            self.fields.append(None)
            self._ch = NONE
            self._at = len(self._line) + 1
            raise
        return True

    def finish(self) -> None:
        """The end of the line: handleEOF of univocity."""
        if self._at > len(self._line):
            return
        consumed = self._consume_value_on_eof()
        if self._value or consumed:
            self._value_parsed()
        else:
            self.fields.append(None)

    def _consume_value_on_eof(self) -> bool:
        if self._ch == self._quote:
            if self._prev == self._quote:
                return True
            if not self._unescaped:
                self._value.append(self._quote)
        return self._prev != NONE and self._ch not in (self._separator, _COMMENT)

    def _parse_quoted_value(self) -> None:
        if self._prev != NONE:
            self._value.insert(0, self._quote)
            self._ch = self._next()
            self._append_until(self._separator)
            return
        self._ch = self._next()
        while not (self._prev == self._quote and (self._ch <= " " or self._ch == self._separator)):
            if self._ch not in (self._quote, self._escape):
                if self._prev == self._quote:
                    self._handle_unescaped_quote()
                    return
                if self._prev == self._escape != NONE:
                    self._value.append(self._escape)
                self._append_until(self._quote, self._escape, self._escape_escape)
                self._prev = self._ch
                self._ch = self._next()
            else:
                self._process_quote_escape()
                self._prev = self._ch
                self._ch = self._next()
                if self._unescaped and self._ch == self._separator:
                    return
        if self._ch != self._separator:
            self._parse_behind_quote()

    def _parse_behind_quote(self) -> None:
        """White space behind a closing quote is dropped, unless something else follows."""
        space = []
        while self._ch <= " " and self._ch != self._separator:
            space.append(self._ch)
            self._ch = self._next()
        if self._ch != self._separator:
            self._value += [self._quote, *space, self._ch]
            self._prev = self._ch
            self._parse_quoted_value()

    def _handle_unescaped_quote(self) -> None:
        self._unescaped = True
        self._value += [self._quote, self._ch]
        self._prev = self._ch
        self._parse_quoted_value()

    def _process_quote_escape(self) -> None:
        if self._ch == self._escape and self._prev == self._escape_escape != NONE:
            self._value.append(self._escape)
            self._ch = NONE
        elif self._prev == self._escape:
            if self._ch == self._quote:
                self._value.append(self._quote)
                self._ch = NONE
            else:
                self._value.append(self._prev)
        elif self._ch == self._quote == self._prev:
            self._value.append(self._quote)
        elif self._prev == self._quote:
            self._value.append(self._quote)
            self._prev = self._ch
            self._parse_value_processing_escape()

    def _parse_value_processing_escape(self) -> None:
        while self._ch != self._separator:
            if self._ch not in (self._quote, self._escape):
                if self._prev == self._quote:
                    self._value.append(self._quote)
                    self._prev = self._ch
                    self._parse_value_processing_escape()
                    return
                self._value.append(self._ch)
            else:
                self._process_quote_escape()
            self._prev = self._ch
            self._ch = self._next()
