"""Whatever stands in a pipeline.toml: it loads, or a ConfigError says why. Nothing else ever comes out."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.search import search
from windowpane.config import EXAMPLE_PIPELINE, parse_pipeline
from windowpane.errors import ConfigError

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), st.text(max_size=8),
    st.sampled_from(["off", "5s", "-5s", "${A}", "${", "$${", "reinject", "metrics_only", "dlq", "a.b", "{message}"]),
)  # fmt: skip
_KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["sink", "late.sink", "key", "a.b.c", ".", "a.", "options"]))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=5,
)


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = document.items() if isinstance(document, dict) else ()
    return [path, *(place for name, item in inner for place in _places(item, (*path, name)))]


_PLACES = [place for place in _places(tomllib.loads(EXAMPLE_PIPELINE)) if place]


@search(60)
@given(st.lists(st.tuples(st.sampled_from(_PLACES), st.one_of(st.none(), _KEYS), _VALUES), min_size=1, max_size=3))
def test_any_value_at_any_key(changes: list[tuple[tuple[Any, ...], str | None, Any]]) -> None:
    document = tomllib.loads(EXAMPLE_PIPELINE)
    for place, new_key, value in changes:
        table: Any = document
        for part in place[:-1]:
            table = table.get(part) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[new_key if new_key is not None else place[-1]] = value

    _load(document)


@search(60)
@given(st.integers(0, len(EXAMPLE_PIPELINE)), st.integers(0, 12), st.text(alphabet="[]{}=.,\"'#\n $ab\\", max_size=4))
def test_any_edit_of_the_text(start: int, length: int, put: str) -> None:
    _load(EXAMPLE_PIPELINE[:start] + put + EXAMPLE_PIPELINE[start + length :])


def _load(source: str | dict[str, Any]) -> None:
    try:
        config = parse_pipeline(source, env={"A": "secret-of-a"})
        shown = repr(config) + str(config.dump())
    except ConfigError as error:
        shown = error.render()
    assert "secret-of-a" not in shown
