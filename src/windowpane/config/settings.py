"""The base of all configuration models: frozen, unknown keys refused, dotted keys understood, secrets hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from windowpane.config.secrets import masked, secret_keys


def refusal(code: str, message: str, hint: str | None = None) -> PydanticCustomError:
    """What a validator raises: becomes a ConfigError with this code, at the key under validation."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint or ""})


class Settings(BaseModel):
    """A table of pipeline.toml. Fields carry the TOML key as alias where their name differs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    synonyms: ClassVar[dict[str, str]] = {}
    """Other spellings of keys, each with the key it stands for."""
    removed: ClassVar[dict[str, str]] = {}
    """Keys of earlier versions, each with what to use instead."""

    _secret_keys: frozenset[str] = PrivateAttr(default=frozenset())
    """Dotted paths of values that are shown as `***`. Set while the model is made."""

    @classmethod
    def keys(cls) -> dict[str, str]:
        """The keys of this table, each with its field's name."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    def dump(self) -> dict[str, Any]:
        """As in pipeline.toml and ready for JSON: durations as text, unset keys left out, secrets as `***`."""
        return cast(dict[str, Any], _without_none(self.model_dump(mode="json", by_alias=True)))

    def hides(self, key: str) -> bool:
        """Whether the value of `key` came from the environment."""
        return any(path == key or path.startswith(f"{key}.") for path in self._secret_keys)

    @model_validator(mode="wrap")
    @classmethod
    def _normalise(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        spread = cls.spread(data)
        model = handler(spread)
        model._secret_keys = secret_keys(spread)  # noqa: SLF001  # of the model that this makes
        return model

    @classmethod
    def spread(cls, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        """`mapping` with dotted keys as nested tables and keys in their own spelling."""
        data = spread_dotted(mapping)
        for other, key in cls.synonyms.items():
            if other in data:
                if key in data:
                    raise refusal(
                        "DUPLICATE_KEY", f"`{other}` and `{key}` are the same key, and both are set", "keep one"
                    )
                data[key] = data.pop(other)
        return data

    @model_serializer(mode="wrap")
    def _hide_in_dumps(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown: dict[str, Any] = handler(self)
        return {name: self._hidden(name, value) for name, value in shown.items()}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self._hidden(name, value) if name else value

    def _hidden(self, name: str, value: Any) -> Any:
        field = type(self).model_fields.get(name)
        key = field.alias if field and field.alias else name
        for path in self._secret_keys:
            if path == key or path.startswith(f"{key}."):
                value = masked(value, path[len(key) + 1 :])
        return value


def spread_dotted(data: Mapping[Any, Any]) -> dict[str, Any]:
    """`{"a.b.c": 1}` as `{"a": {"b.c": 1}}`, merged with what stands there.

    One level only: the table below decides what its own dots mean. Spark's option names, for one, keep theirs.
    """
    spread: dict[str, Any] = {}
    for key, value in data.items():
        table, dot, rest = str(key).partition(".")
        part = {rest: value} if dot else value
        if table not in spread:
            spread[table] = part
        elif isinstance(spread[table], Mapping) and isinstance(part, Mapping):
            spread[table] = _merged(spread[table], part, table)
        else:
            raise refusal("DUPLICATE_KEY", f"`{key}` is given, and `{table}` once more", "keep one")
    return spread


def _merged(first: Mapping[Any, Any], second: Mapping[Any, Any], table: str) -> dict[Any, Any]:
    twice = sorted(str(name) for name in first.keys() & second.keys())
    if twice:
        raise refusal("DUPLICATE_KEY", f"`{table}.{twice[0]}` is set twice", "keep one")
    return {**first, **second}


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
