"""From a file, a text or Python dicts to checked configuration. Every mistake is a ConfigError with its place."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from windowpane.config.completeness import complete
from windowpane.config.models import Options, Sink, Stream, Table
from windowpane.config.pipeline import Origin, PipelineConfig
from windowpane.config.positions import NO_POSITIONS, Positions, index_positions
from windowpane.config.problems import as_one_error, explain
from windowpane.config.secrets import Substitution
from windowpane.config.settings import Settings, spread_dotted
from windowpane.config.spark_settings import SparkSettings
from windowpane.config.transforms import Transform
from windowpane.errors import ConfigError

PIPELINE_FILE = "pipeline.toml"
_INIT_HINT = "`windowpane init` writes a commented example"
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE = ("Cannot declare", "Cannot overwrite", "Duplicate inline table key", "Cannot mutate immutable")

Model = TypeVar("Model", bound=Settings)


def find_pipeline(start: str | Path = ".") -> Path:
    """The pipeline.toml in `start` or the nearest folder above it; `start` itself when it is a file."""
    place = Path(start)
    if place.is_file():
        return place
    for folder in [place, *place.resolve().parents]:
        if (folder / PIPELINE_FILE).is_file():
            return folder / PIPELINE_FILE
    message = f"no {PIPELINE_FILE} in `{place}` or any folder above it"
    raise ConfigError("CONFIG_NOT_FOUND", message, _INIT_HINT, file=str(place))


def load_pipeline(path: str | Path, env: Mapping[str, str] | None = None) -> PipelineConfig:
    """The pipeline that a file describes. `env` stands in for the process's environment."""
    place = Path(path)
    text = _read(place)
    return parse_pipeline(text, base_dir=place.parent, file=str(path), env=env)


def checkpoint_setting(path: str | Path, env: Mapping[str, str] | None = None) -> str | None:
    """`options.checkpoint` of a file. Nothing else in it is looked at, so that no variable it names need be set."""
    raw, positions = _parse_toml(_read(Path(path)), str(path))
    options = raw.get("options")
    given = options.get("checkpoint") if isinstance(options, dict) else None
    given = raw.get("options.checkpoint", given)
    mapping = {} if given is None else {"checkpoint": given}
    return _section(Options, mapping, ("options",), env, Origin(str(path), Path(path).parent, positions)).checkpoint


def spark_settings(path: str | Path, env: Mapping[str, str] | None = None) -> SparkSettings:
    """`[spark]` of a file, likewise: it tells how a checkpoint in an object store is reached."""
    raw, positions = _parse_toml(_read(Path(path)), str(path))
    given = spread_dotted(raw).get("spark", {})
    return _section(SparkSettings, given, ("spark",), env, Origin(str(path), Path(path).parent, positions))


def parse_pipeline(
    source: str | Mapping[str, Any],
    base_dir: str | Path = ".",
    *,
    file: str | None = None,
    env: Mapping[str, str] | None = None,
) -> PipelineConfig:
    """The pipeline of a TOML text or a mapping. Relative paths start from `base_dir`."""
    positions = NO_POSITIONS
    if isinstance(source, str):
        source, positions = _parse_toml(source, file)
    raw, problems, origin = _substituted(source, (), env, Origin(file, Path(base_dir), positions))
    config = _validated(PipelineConfig, raw, (), origin, problems)
    texts = complete(raw, origin, problems)
    if problems or config is None:
        raise as_one_error(_without_echoes(problems))
    for name, transform in config.transforms.items():
        transform.asking(texts[name])
    return config.read_from(origin)


def parse_options(mapping: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Options:
    """The keys of `[options]`, nested or dotted."""
    return _parse(Options, mapping, ("options",), env)


def parse_transform(
    mapping: Mapping[str, Any], name: str | None = None, env: Mapping[str, str] | None = None
) -> Transform:
    """The keys of `[transforms.NAME]`, nested or dotted; the query and the sink may be left out."""
    return _parse(Transform, mapping, ("transforms", name) if name else ("transform",), env)


def parse_stream(name: str, mapping: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Stream:
    """The keys of `[streams.NAME]`, nested or dotted; the format may be left out."""
    return _parse(Stream, mapping, ("streams", name), env)


def parse_table(name: str, mapping: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Table:
    """The keys of `[tables.NAME]`, nested or dotted; the format may be left out."""
    return _parse(Table, mapping, ("tables", name), env)


def parse_sink(name: str, mapping: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Sink:
    """The keys of `[sinks.NAME]`, nested or dotted."""
    return _parse(Sink, mapping, ("sinks", name), env)


def _parse(
    model: type[Model], mapping: Mapping[str, Any], root: tuple[str, ...], env: Mapping[str, str] | None
) -> Model:
    return _section(model, mapping, root, env, Origin())


def _section(
    model: type[Model], mapping: Mapping[str, Any], root: tuple[str, ...], env: Mapping[str, str] | None, origin: Origin
) -> Model:
    raw, problems, origin = _substituted(mapping, root, env, origin)
    parsed = _validated(model, raw, root, origin, problems)
    if problems or parsed is None:
        raise as_one_error(_without_echoes(problems))
    return parsed


def _substituted(
    source: Mapping[str, Any], root: tuple[str, ...], env: Mapping[str, str] | None, origin: Origin
) -> tuple[object, list[ConfigError], Origin]:
    substitution = Substitution(os.environ if env is None else env)
    raw = substitution.apply(source, root)
    known = Origin(origin.file, origin.base_dir, origin.positions, frozenset(substitution.fragments))
    problems = [known.error(p.code, p.message, p.hint, key=p.key) for p in substitution.problems]
    return raw, problems, known


def _validated(
    model: type[Model], raw: object, root: tuple[str, ...], origin: Origin, problems: list[ConfigError]
) -> Model | None:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems += explain(error, model, root, origin)
        return None


def _without_echoes(problems: list[ConfigError]) -> list[ConfigError]:
    """A key whose variable is missing has no value to complain about, nor is one key worth two kinds of complaint."""
    code_at: dict[str | None, str] = {}
    return [problem for problem in problems if code_at.setdefault(problem.key, problem.code) == problem.code]


def _read(place: Path) -> str:
    file = str(place)
    if place.is_dir():
        hint = f"name the file in it: {place / PIPELINE_FILE}"
        raise ConfigError("CONFIG_IS_FOLDER", f"`{file}` is a folder", hint, file=file)
    try:
        return place.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("CONFIG_NOT_FOUND", f"there is no file `{file}`", _INIT_HINT, file=file) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = f"`{file}` is not UTF-8: byte 0x{error.object[error.start]:02x}"
        raise ConfigError("CONFIG_NOT_UTF8", message, "save it as UTF-8", file=file, line=line) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError("CONFIG_UNREADABLE", f"`{file}` cannot be read: {reason}", file=file) from None


def _parse_toml(text: str, file: str | None) -> tuple[dict[str, Any], Positions]:
    try:
        return tomllib.loads(text), index_positions(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, file) from None


def _syntax_error(reason: str, text: str, file: str | None) -> ConfigError:
    place = _PLACE.search(reason)
    line = int(place[1]) if place and place[1] else text.count("\n") + 1
    column = f", column {place[2]}" if place and place[2] else ", at the end"
    plain = _PLACE.sub("", reason)
    if plain.startswith(_TWICE):
        named = re.search("'([^']+)'$", plain)
        message = f"`{named[1] if named else _written_key(text, line)}` is set twice"
        return ConfigError("DUPLICATE_KEY", message, "keep one of the two", file=file, line=line)
    message = f"this is not valid TOML: {plain[0].lower()}{plain[1:]} (line {line}{column})"
    return ConfigError("CONFIG_SYNTAX", message, _syntax_hint(text, line), file=file, line=line)


def _line(text: str, line: int) -> str:
    lines = text.split("\n")
    return lines[line - 1] if line <= len(lines) else ""


def _written_key(text: str, line: int) -> str:
    return _line(text, line).partition("=")[0].partition("#")[0].strip(" \t\r[]")


def _syntax_hint(text: str, line: int) -> str | None:
    value = _line(text, line).partition("=")[2].strip()
    if value and re.match(r"[A-Za-z]", value) and value not in {"true", "false"}:
        return 'put strings in quotes: key = "value"'
    return None
