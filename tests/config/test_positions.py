"""The line of every key, whatever TOML's ways of writing it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.config.positions import index_positions

TEXT = Path(__file__).with_name("positions.toml").read_text(encoding="utf-8")

LINES = {
    "top": 1,
    "date": 2,
    "quoted.key": 3,
    'literal key.and "escaped"': 4,
    "a": 6,
    "a.multi": 7,
    "a.after": 11,
    "a.raw": 12,
    "a.b": 15,
    "a.b.c": 15,
    "a.b.c.dotted": 16,
    "a.b.c.dotted.deep.key": 16,
    "a.b.c.dotted.deep.key.0": 17,
    "a.b.c.dotted.deep.key.1": 18,
    "a.b.c.dotted.deep.key.1.y.1.z": 18,
    "a.b.c.dotted.deep.key.2": 19,
    "a.b.c.inline": 22,
    "a.b.c.inline.p.q": 22,
    "a.b.c.inline.s.t": 22,
    "list": 23,
    "list.0": 23,
    "list.0.n": 24,
    "list.0.sub": 25,
    "list.0.sub.m": 26,
    "list.1": 27,
    "list.1.n": 28,
    "list.1.inner.0.k": 30,
    "list.1.inner.1.k": 32,
    "z": 33,
    "z.last": 34,
    "z.end": 35,
}


@pytest.mark.parametrize(("key", "line"), LINES.items())
def test_line_of_key(key: str, line: int) -> None:
    assert index_positions(TEXT).line_of(key) == line


def test_all_keys_of_the_text_and_no_others_are_indexed() -> None:
    assert set(index_positions(TEXT).lines) == _prefixes(_paths(tomllib.loads(TEXT)))


def test_windows_line_ends_do_not_shift_lines() -> None:
    assert index_positions(TEXT.replace("\n", "\r\n")).lines == index_positions(TEXT).lines


def test_an_explicit_header_wins_over_the_implied_table() -> None:
    positions = index_positions("[a.b]\nx = 1\n[a]\ny = 2\n")

    assert positions.line_of("a") == 3
    assert positions.line_of("a.b") == 1


def test_a_key_that_is_not_there_is_found_at_the_table_around_it() -> None:
    positions = index_positions("[a]\nb = { c = 1 }\n")

    assert positions.line_of("a.b.missing") == 2
    assert positions.line_of("a.missing[3].deep") == 1
    assert positions.line_of("missing") is None


_NAMES = st.sampled_from(["a", "b-c", "d_1", '"q.r"', "'l s'", "x.y", "3"])
_VALUES = st.recursive(
    st.sampled_from(
        ["1", "-0.5", "true", '""', "''", '"a # ] } = b"', '"""\nx = 1\n"""', "'''\n[t]\n'''", '""""q"""', "1979-05-27"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[\n" + ",\n".join(items) + "\n]"),
        st.lists(inner, max_size=2).map(
            lambda items: "{ " + ", ".join(f"k{n}.i = {item}" for n, item in enumerate(items)) + " }"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(_NAMES, _NAMES, _VALUES, st.sampled_from(["", "  # note ]", "\n\n"])), max_size=6))
def test_every_generated_key_stands_on_the_line_it_was_written_on(rows: list[tuple[str, str, str, str]]) -> None:
    text, expected = "", {}
    for number, (table, key, value, tail) in enumerate(rows):
        text += f"[t{number}.{table}]{tail}\n"
        expected[f"t{number}.{_bare(table)}.{_bare(key)}"] = text.count("\n") + 1
        text += f"{key} = {value}{tail}\n"

    positions = index_positions(text)

    assert {key: positions.lines.get(key) for key in expected} == expected
    assert set(positions.lines) == _prefixes(_paths(tomllib.loads(text)))


def _bare(name: str) -> str:
    return name.strip("\"'")


def _paths(value: object) -> Iterator[tuple[str, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (str(name),)
        yield from ((str(name), *rest) for rest in _paths(item))


def _prefixes(paths: Iterator[tuple[str, ...]]) -> set[str]:
    return {".".join(path) for path in paths}
