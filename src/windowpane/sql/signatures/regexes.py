"""Java's regular expressions as RE2 reads them: the part of the language for which both find the same matches.

What differs is written out (`.` and whitespace leave out other characters in Java) or refused (word boundaries,
possessive quantifiers, look-around, back references, flags, classes within classes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
"""Line terminators in Java."""
_CLASSES = {"d": r"0-9", "w": r"a-zA-Z_0-9", "s": r" \t\n\x{0b}\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d{1,3})(?:,(\d{0,3}))?\})")
LINE = rf"(?:\r\n|[{_ENDS}])\z"
"""What `$` looks past at the end of a text, in RE2."""


class Refused(Exception):  # noqa: N818  # no error of the user
    """The pattern may mean something else in RE2."""


@dataclass(frozen=True)
class Pattern:
    """A pattern of RE2."""

    text: str
    groups: int
    empty: bool
    """It can match the empty text."""
    ended: bool
    """It ends with `$`."""
    plain: str | None
    """The text, where the pattern is nothing else."""


@dataclass(frozen=True)
class _Part:
    text: str
    empty: bool
    breaks: bool = False
    """It can match a line terminator."""
    groups: int = 0


def translate_pattern(pattern: str) -> Pattern | None:
    """None where it is not certain that both engines find the same."""
    reader = _Reader(pattern)
    try:
        part = reader.alternatives()
        if reader.at != len(pattern) or (reader.ended and part.breaks):
            return None
    except Refused:
        return None
    return Pattern(part.text, reader.groups, part.empty, reader.ended, reader.plain)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.groups, self.depth, self.ended = pattern, 0, 0, 0, False
        self.plain: str | None = ""

    @property
    def next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        char = self.next
        self.at += 1
        return char

    def alternatives(self) -> _Part:
        found = [self.sequence()]
        while self.next == "|":
            self.at, self.plain = self.at + 1, None
            found.append(self.sequence())
        if len(found) > 1 and self.ended and not self.depth:
            raise Refused
        return _Part("|".join(each.text for each in found), any(each.empty for each in found),
                     any(each.breaks for each in found), sum(each.groups for each in found))  # fmt: skip

    def sequence(self) -> _Part:
        parts: list[_Part] = []
        while self.next and self.next not in "|)":
            parts.append(self.quantified())
        return _Part("".join(part.text for part in parts), all(part.empty for part in parts),
                     any(part.breaks for part in parts), sum(part.groups for part in parts))  # fmt: skip

    def quantified(self) -> _Part:
        if self.next == "^" and self.at == 0:
            self.at, self.plain = 1, None
            return _Part("^", empty=True)
        if self.next == "$" and self.at == len(self.pattern) - 1:
            self.at, self.ended, self.plain = self.at + 1, True, None
            return _Part(r"\z", empty=True)
        group = self.next == "("
        part = self.atom()
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return part
        self.at, self.plain = match.end(), None
        low, high = match[1], match[2]
        if (low and high and int(high) < int(low)) or (group and (part.empty or part.groups > 1)):
            raise Refused
        lazy = "?" if self.next == "?" else ""
        self.at += len(lazy)
        if self.next and (self.next in "*+?" or self.next == "{"):
            raise Refused
        empty = part.empty or match[0] in ("*", "?") or (low is not None and int(low) == 0)
        return _Part(part.text + match[0] + lazy, empty, part.breaks, part.groups)

    def atom(self) -> _Part:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            self.plain = None
            return self.char_class()
        if char == ".":
            self.plain = None
            return _Part(f"[^{_ENDS}]", empty=False)
        if char == "\\":
            return self.escape()
        if char in _SPECIAL or not char.isprintable():
            raise Refused
        return self.literal(char)

    def literal(self, char: str) -> _Part:
        if self.plain is not None:
            self.plain += char
        return _Part(_quoted(char), empty=False, breaks=char in "\n\r\x85\u2028\u2029")

    def group(self) -> _Part:
        self.plain = None
        opening = "("
        if self.next == "?":
            opening = self.pattern[self.at - 1 : self.at + 2]
            if opening != "(?:":
                raise Refused
            self.at += 2
        else:
            self.groups += 1
        self.depth += 1
        inner = self.alternatives()
        self.depth -= 1
        if self.take() != ")":
            raise Refused
        own = 1 if opening == "(" else 0
        if own == 0 and inner.groups:  # the last round of a group that is repeated is not the same in both
            return _Part(f"(?:{inner.text})", inner.empty, inner.breaks, inner.groups + 1)
        return _Part(f"{opening}{inner.text})", inner.empty, inner.breaks, inner.groups + own)

    def escape(self) -> _Part:
        char = self.take()
        if char in _CLASSES or (char and char in "DWS"):
            self.plain = None
            return _Part(f"[{'^' if char.isupper() else ''}{_CLASSES[char.lower()]}]", False, char in "sDW")
        if char in _CONTROLS:
            return self.literal(_CONTROLS[char].encode().decode("unicode_escape"))
        if not char or char.isalnum() or not char.isascii() or not char.isprintable():
            raise Refused
        return self.literal(char)

    def char_class(self) -> _Part:
        negated = self.next == "^"
        self.at += negated
        found: list[str] = []
        wide = False
        while self.next != "]" or not found:
            if self.next in ("", "[", "]", "&", "^"):
                raise Refused
            text, single = self.member()
            wide |= not single
            if self.next == "-" and single and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                last, ends = self.member()
                if not ends or ord(last) < ord(text) or not (text + last).isascii() or not (text + last).isalnum():
                    raise Refused
                found.append(f"{text}-{last}")
            else:
                found.append(_quoted(text) if single else text)
        self.at += 1
        breaks = negated or any(r"\n" in each or each in (_quoted("\r"), _quoted("\n")) for each in found)
        return _Part(f"[{'^' if negated else ''}{''.join(found)}]", empty=False, breaks=breaks or wide)

    def member(self) -> tuple[str, bool]:
        """A character of a class, or the text of a class within it."""
        char = self.take()
        if char != "\\":
            if not char.isprintable() or not char:
                raise Refused
            return char, True
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char], False
        if char in _CONTROLS:
            return _CONTROLS[char].encode().decode("unicode_escape"), True
        if not char or char.isalnum() or not char.isascii() or not char.isprintable():
            raise Refused
        return char, True


def _quoted(char: str) -> str:
    return char if char.isalnum() and char.isascii() else f"\\x{{{ord(char):x}}}"


def translate_replacement(text: str, groups: int) -> str | None:
    """Java's replacement (`$1`, escapes) as RE2's; None where a group does not exist or its number is not certain."""
    found, at = "", 0
    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        if char == "$":
            if not after.isascii() or not after.isdigit() or int(after) > groups or text[at + 2 : at + 3].isdigit():
                return None
            found, at = f"{found}\\{after}", at + 2
        elif char == "\\":
            if not after:
                return None
            found, at = found + ("\\\\" if after == "\\" else after), at + 2
        else:
            found, at = found + char, at + 1
    return found
