"""Users' functions: `[functions]` of pipeline.toml, loaded and checked at planning time, and `register_function`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from windowpane.config import PipelineConfig, UserFunctionSettings
from windowpane.core import accumulators, user_functions
from windowpane.core.accumulators import UserAggregate
from windowpane.core.user_functions import UserFunction
from windowpane.errors import ConfigError, PlanError, SqlError, nearest
from windowpane.sql import parse_schema
from windowpane.sql.builtins import known_functions
from windowpane.sql.types import to_arrow

_INSTEAD = "write Spark's name of a type, for example DOUBLE, STRING or ARRAY<BIGINT>"
_loaded_aggregates: set[str] = set()
"""Aggregates that come from pipeline files: loading a file again replaces them."""


def register_function(name: str, function: Callable[..., Any], returns: str, *, arrow: bool = False) -> None:
    """Make a Python function known to SQL under `name`. `returns` is Spark's name of its type.

    The function gets the values of one row; with `arrow`, Arrow columns. A row on which it raises is an error row.
    """
    kind = _type_of(returns)
    if kind is None:
        raise PlanError("BAD_FUNCTION", f"`{returns}` is not a type that a function can return", _INSTEAD)
    if name.lower() in known_functions():
        raise PlanError("FUNCTION_EXISTS", f"there is already a function `{name}`", "give it another name")
    user_functions.register(UserFunction(name.lower(), function, *kind, of_columns=arrow))


def load_functions(config: PipelineConfig) -> None:
    """Import the functions of a pipeline and register them; ConfigError with file, key and line."""
    for name, settings in config.functions.items():
        place = f"functions.{name}"
        _check(config, name, settings)
        module = _module(config, settings.module, f"{place}.module")
        found = _attribute(config, module, settings.function or name, place)
        if settings.kind == "aggregate":
            _register_aggregate(config, name, found, place)
        else:
            if not callable(found):
                hint = f"`{settings.module}` has a {type(found).__name__} of that name"
                message = f"`{settings.function or name}` is not a function"
                raise config.error("BAD_FUNCTION", message, hint, key=_named_at(config, place))
            kind = _type_of(settings.returns or "")
            if kind is None:
                message = f"`{settings.returns}` is not a type that a function can return"
                raise config.error("BAD_FUNCTION", message, _INSTEAD, key=f"{place}.returns")
            of_columns = settings.kind == "arrow"
            user_functions.register(UserFunction(name.lower(), found, *kind, of_columns=of_columns))


def _check(config: PipelineConfig, name: str, settings: UserFunctionSettings) -> None:
    place = f"functions.{name}"
    if settings.kind == "aggregate" and settings.returns is not None:
        hint = "remove it: an aggregate declares `output_type` in its class"
        raise config.error("CONFLICTING_KEYS", "an aggregate has no `returns`", hint, key=f"{place}.returns")
    if settings.kind != "aggregate" and settings.returns is None:
        message = f"the type of `{name}` is missing"
        raise config.error("MISSING_KEY", message, f'add `returns = "DOUBLE"`; {_INSTEAD}', key=place)
    taken = name.lower() in known_functions() and name.lower() not in _loaded_aggregates
    if taken:
        message = f"there is already a function `{name}`"
        raise config.error("FUNCTION_EXISTS", message, "give it another name, and set `function`", key=place)


def _register_aggregate(config: PipelineConfig, name: str, found: object, place: str) -> None:
    if not (isinstance(found, type) and issubclass(found, UserAggregate)):
        hint = "write a class that extends windowpane.Aggregate"
        message = f"the aggregate `{name}` is not a class of that kind"
        raise config.error("BAD_FUNCTION", message, hint, key=_named_at(config, place))
    missing = [each for each in ("input_types", "state_types", "output_type") if not hasattr(found, each)]
    if missing:
        hint = "docs/python.md shows what the class has to declare"
        raise config.error("BAD_FUNCTION", f"the aggregate `{name}` has no `{missing[0]}`", hint, key=place)
    accumulators.register(
        accumulators.as_function(found, name.lower(), guarded=True), replace=name.lower() in _loaded_aggregates
    )
    _loaded_aggregates.add(name.lower())


def _named_at(config: PipelineConfig, place: str) -> str:
    """The key that names the function, or the table of the function."""
    return f"{place}.function" if config.line_of(f"{place}.function") else place


def _type_of(text: str) -> tuple[str, pa.DataType] | None:
    """A type's canonical name and its Arrow type."""
    try:
        (column,) = parse_schema(f"value {text}")
    except (SqlError, ValueError):
        return None
    kind = to_arrow(column.type)
    return None if kind is None else (column.type, kind)


def _attribute(config: PipelineConfig, module: ModuleType, name: str, place: str) -> object:
    try:
        found: object = getattr(module, name)
    except AttributeError:
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        key = _named_at(config, place)
        hint = f"it has: {nearest(name, known)}"
        raise config.error(
            "FUNCTION_NOT_FOUND", f"`{module.__name__}` has no function `{name}`", hint, key=key
        ) from None
    return found


def _module(config: PipelineConfig, written: str, key: str) -> ModuleType:
    """A file relative to pipeline.toml, a module beside it, or an installed one."""
    path = _file_of(config, written, key)
    try:
        return (
            importlib.import_module(written) if path is None else _from_file(path, config.base_dir.resolve(), written)
        )
    except ModuleNotFoundError as error:
        if error.name is not None and (written == error.name or written.startswith(f"{error.name}.")):
            hint = f"put {written.replace('.', '/')}.py beside pipeline.toml, or install the module"
            raise config.error("MODULE_NOT_FOUND", f"there is no module `{written}`", hint, key=key) from None
        raise _failed(config, written, error, key) from error
    except ConfigError:
        raise
    except Exception as error:
        raise _failed(config, written, error, key) from error


def _failed(config: PipelineConfig, written: str, error: Exception, key: str) -> ConfigError:
    message = f"`{written}` cannot be imported: {type(error).__name__}: {error}"
    return config.error("MODULE_FAILED", message, "correct the module, then try again", key=key)


def _file_of(config: PipelineConfig, written: str, key: str) -> Path | None:
    base = config.base_dir.resolve()
    if written.endswith(".py"):
        path = base / written
        if not path.is_file():
            raise config.error("MODULE_NOT_FOUND", f"there is no file `{written}`", "correct the path", key=key)
        return path
    stem = base.joinpath(*written.split("."))
    found = [path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()]
    return found[0] if found else None


def _from_file(path: Path, base: Path, written: str) -> ModuleType:
    """Loaded anew if the file, or another one, has taken its name since."""
    name = written if not written.endswith(".py") else path.stem
    loaded = sys.modules.get(name)
    stamp = (str(path), path.stat().st_mtime_ns)
    if loaded is not None and getattr(loaded, "_windowpane_stamp", None) == stamp:
        return loaded
    if str(base) not in sys.path:
        sys.path.insert(0, str(base))  # so that the module can import others beside it
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} is a file"
    assert spec.loader is not None, f"{path} is a file of Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    module._windowpane_stamp = stamp  # type: ignore[attr-defined]  # noqa: SLF001  # marks what it was loaded from
    return module
