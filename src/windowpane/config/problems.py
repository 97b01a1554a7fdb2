"""What pydantic found wrong, as errors that a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windowpane.config.pipeline import Origin
from windowpane.config.secrets import Secret, dotted, quoted
from windowpane.config.settings import Settings
from windowpane.config.values import toml_type
from windowpane.errors import ConfigError, nearest

_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "bool_type": "a boolean",
    "float_type": "a number",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "tuple_type": "a list of strings",
    "list_type": "a list",
}
_SECTIONS = ("streams", "tables", "transforms", "sinks")


class MultipleConfigError(ConfigError):
    """Several mistakes at once: it is the first of them, and lists the others."""

    def __init__(self, problems: list[ConfigError]) -> None:
        first, *others = problems
        super().__init__(first.code, first.message, first.hint, file=first.file, line=first.line, key=first.key)
        self.others = tuple(others)

    def render(self) -> str:
        count = len(self.others)
        heading = "and one more problem:" if count == 1 else f"and {count} more problems:"
        return "\n".join([super().render(), heading, *(other.render() for other in self.others)])

    def as_dict(self) -> dict[str, object]:
        return super().as_dict() | {"others": [other.as_dict() for other in self.others]}


def as_one_error(problems: Iterable[ConfigError]) -> ConfigError:
    """The error to raise for these problems, in the order of the file."""
    ordered = sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))
    return ordered[0] if len(ordered) == 1 else MultipleConfigError(ordered)


def explain(error: ValidationError, model: type[Settings], root: tuple[str, ...], origin: Origin) -> list[ConfigError]:
    """One ConfigError per mistake. `root` is the key path at which `model` stands."""
    return [_explain_one(details, model, root, origin) for details in error.errors(include_url=False)]


def _explain_one(details: ErrorDetails, model: type[Settings], root: tuple[str, ...], origin: Origin) -> ConfigError:
    path = tuple(part for part in details["loc"] if part != "[key]")
    key = dotted((*root, *path))
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, model, root, origin)
    if kind == "missing":
        table = dotted((*root, *path[:-1])) or "the pipeline"
        hint = _description(path, model)
        return origin.error("MISSING_KEY", f"`{table}` needs the key `{path[-1]}`", hint, key=key)
    if kind in _WANTED:
        return _wrong_type(details, key, origin)
    if kind == "literal_error":
        choices = _choices(path, model)
        given = "" if isinstance(details["input"], Secret) else str(details["input"])
        message = f"`{key}` cannot be {quoted(details['input'])}"
        return origin.error("BAD_CHOICE", message, f"valid: {nearest(given, choices)}", key=key)
    return _other(details, key, origin)


def _other(details: ErrorDetails, key: str, origin: Origin) -> ConfigError:
    context: dict[str, Any] = details.get("ctx", {})
    if details["type"].isupper():
        return origin.error(details["type"], f"`{key}`: {details['msg']}", context.get("hint") or None, key=key)
    if "ge" in context:
        message = f"`{key}` must be at least {context['ge']}, not {quoted(details['input'])}"
        return origin.error("BAD_VALUE", message, key=key)
    return origin.error("BAD_VALUE", f"`{key}` cannot be {quoted(details['input'])}: {details['msg']}", key=key)


def _wrong_type(details: ErrorDetails, key: str, origin: Origin) -> ConfigError:
    value = details["input"]
    wanted = _WANTED[details["type"]]
    shown = f" ({quoted(value)})" if isinstance(value, str | int | float) else ""
    hint = None
    if isinstance(value, str) and wanted in {"an integer", "a boolean"}:
        hint = "write it without quotes"
    if isinstance(value, Secret):
        hint = f"${{…}} yields a string, and this key takes {wanted}"
    if wanted == "a table":
        header = f"{key}.NAME" if key in _SECTIONS else key
        hint = f"write it as [{header}] with its keys below"
    return origin.error("BAD_TYPE", f"`{key}` must be {wanted}, not {toml_type(value)}{shown}", hint, key=key)


def _unknown_key(
    path: tuple[str | int, ...], model: type[Settings], root: tuple[str, ...], origin: Origin
) -> ConfigError:
    table, name = path[:-1], str(path[-1])
    owner = _model_at(table, model)
    key = dotted((*root, *path))
    where = dotted((*root, *table))
    if owner and name in owner.removed:
        return origin.error("UNKNOWN_KEY", f"`{key}` is no longer a key", owner.removed[name], key=key)
    valid = nearest(name, owner.keys()) if owner else "(none)"
    shown = f"`{where}` has no key `{name}`" if where else f"there is no section `{name}`"
    return origin.error("UNKNOWN_KEY", shown, f"valid, nearest first: {valid}", key=key)


def _model_at(path: tuple[str | int, ...], model: type[Settings]) -> type[Settings] | None:
    """The model of the table at `path` below `model`."""
    here: Any = model
    for part in path:
        if isinstance(here, type) and issubclass(here, Settings):
            name = here.keys().get(str(part))
            here = here.model_fields[name].annotation if name else None
            here = _first(here, lambda kind: isinstance(kind, type) and issubclass(kind, Settings)) or here
        else:
            here = get_args(here)[-1] if get_args(here) else None
    return here if isinstance(here, type) and issubclass(here, Settings) else None


def _field_at(path: tuple[str | int, ...], model: type[Settings]) -> Any:
    owner = _model_at(path[:-1], model)
    name = owner.keys().get(str(path[-1])) if owner else None
    return owner.model_fields[name] if owner and name else None


def _description(path: tuple[str | int, ...], model: type[Settings]) -> str | None:
    field = _field_at(path, model)
    return field.description if field else None


def _choices(path: tuple[str | int, ...], model: type[Settings]) -> list[str]:
    field = _field_at(path, model)
    if field is None:
        return []
    chosen = _first(field.annotation, lambda kind: get_origin(kind) is Literal)  # `Literal[…]`, or that or None
    return [str(choice) for choice in get_args(chosen)]


def _first(annotation: Any, test: Callable[[Any], bool]) -> Any:
    """The first member of a union (`Model | None`) that passes; dicts are no unions."""
    if test(annotation):
        return annotation
    if getattr(annotation, "__origin__", None) is dict:
        return None
    return next((kind for kind in get_args(annotation) if test(kind)), None)
