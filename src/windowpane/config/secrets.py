"""`${NAME}` and `${NAME:-default}` in configured texts: substituted while loading, and never shown afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windowpane.errors import ConfigError, nearest

MASK = "***"
_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SHORTEST_FRAGMENT = 3


class Secret(str):
    """A text that came, in part or whole, from the environment. Its repr is `***`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{MASK}'"


def quoted(value: object) -> str:
    """`value` as a message may show it."""
    if isinstance(value, Secret):
        return f"`{MASK}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


@dataclass
class Substitution:
    """One pass over a configuration: collects what went wrong and which texts must not be shown."""

    variables: Mapping[str, str]
    problems: list[ConfigError] = field(default_factory=list)
    fragments: set[str] = field(default_factory=set)

    def apply(self, value: object, path: tuple[str | int, ...] = ()) -> object:
        """A copy of `value` with every text in it substituted. Keys stay as they are."""
        if isinstance(value, Mapping):
            return {name: self.apply(item, (*path, str(name))) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.apply(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: tuple[str | int, ...]) -> str:
        found = False

        def put(match: re.Match[str]) -> str:
            nonlocal found
            if match[0] == "$${":
                return "${"
            found = True
            return self._look_up(match, path)

        put_in = _REFERENCE.sub(put, text)
        return Secret(put_in) if found else put_in

    def _look_up(self, match: re.Match[str], path: tuple[str | int, ...]) -> str:
        key = dotted(path)
        variable = _VARIABLE.fullmatch(match[1] or "")
        if variable is None:
            self._problem("BAD_ENV", f"`{match[0]}` is not the name of an environment variable", key,
                          "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${")  # fmt: skip
            return match[0]
        name, default = variable[1], variable[2]
        value = self.variables.get(name)
        if default is not None and not value:
            return default
        if value is None:
            self._problem("MISSING_ENV", f"the environment variable `{name}` is not set", key, self._advice(name))
            return match[0]
        self.fragments.add(value)
        return value

    def _advice(self, name: str) -> str:
        advice = f"set {name}, or give a default: ${{{name}:-default}}; for a literal ${{ write $${{"
        close = nearest(name, self.variables).split(", ")[0]
        return f"{advice}; did you mean `{close}`?" if close.lower() == name.lower() else advice

    def _problem(self, code: str, message: str, key: str, hint: str) -> None:
        self.problems.append(ConfigError(code, message, hint, key=key))


def dotted(path: tuple[str | int, ...]) -> str:
    """A key path as one text: `transforms.hot.dedupe.key[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def secret_keys(value: object, prefix: str = "") -> frozenset[str]:
    """The dotted paths below `value` at which a Secret stands."""
    if isinstance(value, Secret):
        return frozenset([prefix])
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    found: set[str] = set()
    for name, item in items:
        found |= secret_keys(item, f"{prefix}.{name}" if prefix else str(name))
    return frozenset(found)


def masked(value: object, path: str) -> object:
    """A copy of `value` in which what stands at the dotted `path` is `***`."""
    if not path:
        return MASK
    if isinstance(value, Mapping):
        return {name: _masked_item(str(name), item, path) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked_item(str(index), item, path) for index, item in enumerate(value))
    return value


def _masked_item(name: str, item: object, path: str) -> object:
    if path == name:
        return MASK
    return masked(item, path[len(name) + 1 :]) if path.startswith(f"{name}.") else item


def redact(text: str, fragments: frozenset[str]) -> str:
    """`text` without the values of environment variables. Values shorter than three characters are no secrets."""
    for fragment in sorted(fragments, key=len, reverse=True):
        if len(fragment) >= _SHORTEST_FRAGMENT:
            text = text.replace(fragment, MASK)
    return text
