"""What a whole pipeline needs beyond each table being right: references, the keys a format needs, the SQL files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from windowpane.config.models import KEY_PREFIX, Sink, Source, Stream, Table, is_of_key
from windowpane.config.pipeline import Origin, PipelineConfig
from windowpane.config.secrets import MASK
from windowpane.config.settings import Settings
from windowpane.config.transforms import METRICS_ONLY, REINJECT, Transform
from windowpane.errors import ConfigError, nearest
from windowpane.formats import (
    CODECS,
    JSON,
    SOURCES,
    CodecFormat,
    SinkFormat,
    key_codecs,
    source_format,
)

Model = TypeVar("Model", bound=Settings)
_CORRUPT_COLUMN = "columnnameofcorruptrecord"
_TABLE_VALUES = (
    ("starting_after", r"latest|\d{1,19}", '"latest", a version of a Delta table, or the id of an Iceberg snapshot'),
    ("skip_changes", "true|false", "true or false"),
    ("maxFilesPerTrigger", r"[1-9]\d{0,8}", "a positive whole number"),
    ("maxBytesPerTrigger", r"[1-9]\d{0,17}", "a positive whole number"),
)


def complete(raw: object, origin: Origin, problems: list[ConfigError]) -> dict[str, str]:
    """Adds what is missing to `problems`; gives the SQL text of each transform.

    Looks at the tables one by one, so that a mistake in one does not hide what is missing in another.
    """
    try:
        tables = PipelineConfig.spread(raw) if isinstance(raw, Mapping) else {}
    except PydanticCustomError:
        return {}
    check = _Completeness(tables, origin, problems)
    check.sections()
    for stream_name, stream in check.valid("streams", Stream):
        check.source(f"streams.{stream_name}", stream)
        check.stream(f"streams.{stream_name}", stream)
    for table_name, table in check.valid("tables", Table):
        check.source(f"tables.{table_name}", table)
        check.table(f"tables.{table_name}", table)
    for sink_name, sink in check.valid("sinks", Sink):
        check.sink(f"sinks.{sink_name}", sink)
    return {name: check.transform(f"transforms.{name}", item) for name, item in check.valid("transforms", Transform)}


class _Completeness:
    def __init__(self, raw: dict[str, Any], origin: Origin, problems: list[ConfigError]) -> None:
        self._raw = raw
        self._origin = origin
        self._problems = problems
        self._sinks = list(self._section("sinks"))

    def _section(self, name: str) -> dict[str, Any]:
        section = self._raw.get(name, {})
        return section if isinstance(section, dict) else {}

    def _add(self, code: str, message: str, hint: str | None, key: str) -> None:
        self._problems.append(self._origin.error(code, message, hint, key=key))

    def valid(self, section: str, model: type[Model]) -> list[tuple[str, Model]]:
        """The tables of a section that are right in themselves."""
        found = []
        for name, table in self._section(section).items():
            try:
                found.append((name, model.model_validate(table)))
            except ValidationError:
                continue
        return found

    def sections(self) -> None:
        if not self._raw.get("transforms"):
            hint = "add [transforms.NAME] with sql and sink"
            self._add("NO_TRANSFORMS", "the pipeline has no transforms, so it would do nothing", hint, "transforms")
        if not self._raw.get("streams"):
            hint = "add [streams.NAME] with format and path"
            self._add("NO_STREAMS", "the pipeline has no streams, so there is nothing to read", hint, "streams")
        for name in sorted({METRICS_ONLY, REINJECT}.intersection(self._sinks)):
            message = f"a sink cannot be called `{name}`: side_output reserves that name"
            self._add("BAD_NAME", message, "choose another name", f"sinks.{name}")
        self._relation_names()

    def _relation_names(self) -> None:
        """SQL knows streams and tables by name alone, in any case."""
        seen: dict[str, str] = {}
        for section in ("streams", "tables"):
            for name in self._section(section):
                other = seen.setdefault(name.lower(), f"{section}.{name}")
                if other != f"{section}.{name}":
                    message = f"`{section}.{name}` and `{other}` have the same name in SQL"
                    self._add("DUPLICATE_NAME", message, "rename one of them", f"{section}.{name}")

    def source(self, key: str, source: Source) -> None:
        if source.format is None:
            hint = f"{', '.join(SOURCES.names)}, or any other Spark source"
            self._add("MISSING_KEY", f"`{key}` needs the key `format`", hint, f"{key}.format")
            return
        known = source.source_format
        if known.needs_path and not (source.path or (known.is_files and "path" in source.options)):
            self._needs(key, "path", source.format)
        if known.is_table:
            self._table_options(f"{key}.options", source)
        if source.source_format.untyped and source.schema_ is None:
            paste = f"`windowpane schema {source.path or 'FILE'}` prints one to paste, from the files that are there"
            hint = paste if source.source_format.sampled else 'for example schema = "auction BIGINT, ts TIMESTAMP"'
            self._needs(key, "schema", source.format, hint)

    def _table_options(self, key: str, source: Source) -> None:
        """Nothing passes options of tables on, so unknown ones would have no effect."""
        known = source.source_format
        names = sorted(known.selecting_options - (set() if known.required_options else {"table"}))
        for option in sorted(set(source.decoding_options) | ({"table"} & set(source.options) - set(names))):
            hint = f"valid, nearest first: {nearest(option, names)}"
            self._add("UNKNOWN_KEY", f"`{key}` has no key `{option}`", hint, f"{key}.{option}")
        for option, pattern, valid in _TABLE_VALUES:
            value = source.spark_options.get(option)
            if value is not None and not re.fullmatch(pattern, value, re.IGNORECASE):
                self._add("BAD_VALUE", f"`{key}.{option}` is not {valid}", None, f"{key}.{option}")

    def table(self, key: str, table: Table) -> None:
        if not table.source_format.read_by_spark:
            hint = "convert the files, for example to parquet"
            self._add("BAD_VALUE", f"`{key}`: Spark does not read format {table.format}", hint, f"{key}.format")

    def stream(self, key: str, stream: Stream) -> None:
        source = stream.source_format
        for group in source.required_options:
            if not any(name in stream.options for name in group):
                self._needs(key, f"options.{group[0]}", source.name)
        if stream.scan == "spark" and not source.read_by_spark:
            self._add("BAD_VALUE", f"Spark does not read format {source.name}", "remove the key", f"{key}.scan")
        if stream.scan == "spark" and stream.codec is not None and stream.codec.spark is None:
            message = f"Spark does not decode {stream.codec.title} values"
            self._add("BAD_VALUE", message, "remove the key", f"{key}.scan")
        if stream.split_bytes is not None and not (source.divisible and stream.scan != "spark"):
            names = ", ".join(name for name in SOURCES.names if source_format(name).divisible)
            message = f"`{key}.split_bytes` is for files that workers read: {names}"
            self._add("BAD_VALUE", message, "remove the key", f"{key}.split_bytes")
        if source.is_files and source.untyped:
            self._bad_records(f"{key}.options", stream)
        if stream.value_format is not None:
            self._value_format(f"{key}.value_format", stream, stream.value_format)
        self._key_format(key, stream)

    def _bad_records(self, key: str, stream: Stream) -> None:
        """Options that say what becomes of bad records, which are error rows in any case."""
        for option, value in stream.spark_options.items():
            if option.lower() == _CORRUPT_COLUMN or (option.lower() == "mode" and value.upper() != "PERMISSIVE"):
                message = f"`{key}.{option}` has no effect: records that cannot be read become error rows"
                self._add("BAD_VALUE", message, "remove it, and route error rows with side_output", f"{key}.{option}")

    def _value_format(self, key: str, stream: Stream, name: str) -> None:
        hidden = stream.hides("value_format")
        if not stream.source_format.is_messages:
            message = f"`{key}` is set, but format {stream.format} has no message values"
            self._add("BAD_VALUE", message, "remove the key", key)
        elif stream.schema_ is None:
            hint = "declare the columns of the values, or remove value_format to receive them as BINARY"
            self._add("MISSING_KEY", f"`{key}` is set, but the stream has no `schema`", hint, key)
        elif CODECS.find(name) is None:
            message = f"`{key}` is `{MASK if hidden else name}`, which is not a known codec"
            self._add("BAD_CHOICE", message, f"valid: {nearest('' if hidden else name, CODECS.names)}", key)
        elif stream.codec is not None:
            self._codec_options(key, stream, stream.codec)

    def _key_format(self, place: str, stream: Stream) -> None:
        key, name = f"{place}.key_format", stream.key_format
        if name is None:
            self._without_key_format(place, stream)
        elif not stream.source_format.is_messages:
            message = f"`{key}` is set, but format {stream.format} has no message keys"
            self._add("BAD_VALUE", message, "remove the key", key)
        elif stream.schema_ is None or stream.key_schema is None:
            missing = "schema" if stream.schema_ is None else "key_schema"
            hint = f'for example {missing} = "customer BIGINT"'
            self._add("MISSING_KEY", f"`{key}` is set, but the stream has no `{missing}`", hint, f"{place}.{missing}")
        elif name not in key_codecs():
            hidden = stream.hides("key_format")
            message = f"`{key}` is `{MASK if hidden else name}`, which is not a codec for keys"
            self._add("BAD_CHOICE", message, f"valid: {nearest('' if hidden else name, key_codecs())}", key)
        elif stream.key_codec is not None:
            self._codec_options(key, stream, stream.key_codec, KEY_PREFIX)

    def _without_key_format(self, place: str, stream: Stream) -> None:
        """What only a codec of keys needs."""
        of_key = [name for name in stream.options if is_of_key(name)] if stream.source_format.is_messages else []
        found = ["key_schema"] if stream.key_schema is not None else [f"options.{name}" for name in of_key]
        if found:
            hint = f'for example key_format = "{JSON.name}"; valid: {", ".join(key_codecs())}'
            self._add("MISSING_KEY", f"`{place}.{found[0]}` needs the key `key_format`", hint, f"{place}.{found[0]}")

    def _codec_options(self, place: str, stream: Stream, codec: CodecFormat, prefix: str = "") -> None:
        """`place`: the key that names the codec. `prefix`: how its options begin."""
        key, _, chooser = place.rpartition(".")
        for group in ([f"{prefix}{name}" for name in each] for each in codec.required_options):
            if not any(name in stream.options for name in group):
                message = f"`{key}` needs the key `options.{group[0]}`, because its {chooser} is {codec.name}"
                hint = f"or one of: {', '.join(group[1:])}" if len(group) > 1 else None
                self._add("MISSING_KEY", message, hint, f"{key}.options.{group[0]}")
        for name in (f"{prefix}{each}" for each in codec.file_options):
            if name in stream.options and not (self._origin.base_dir / str(stream.options[name])).is_file():
                shown = MASK if stream.hides("options") else stream.options[name]
                hint = "the path is relative to the folder of pipeline.toml"
                self._add(
                    "SCHEMA_FILE", f"`{key}.options.{name}`: there is no file `{shown}`", hint, f"{key}.options.{name}"
                )

    def sink(self, key: str, sink: Sink) -> None:
        known = sink.sink_format
        if known.needs_path and not (sink.path or "path" in sink.options):
            self._needs(key, "path", known.name)
        if sink.mode is not None and sink.mode not in known.modes:
            message = f"`{key}.mode` cannot be `{sink.mode}` with format {sink.format}"
            self._add("BAD_CHOICE", message, f"valid: {', '.join(known.modes)}", f"{key}.mode")
        if sink.delivery is not None and sink.delivery not in known.deliveries:
            message = f"`{key}.delivery` cannot be chosen with format {sink.format}"
            self._add("BAD_CHOICE", message, "remove it; docs/connectors.md lists the guarantees", f"{key}.delivery")
        self._sink_options(f"{key}.options", sink, known)
        for option in known.required_options:
            if option not in sink.options:
                self._needs(key, f"options.{option}", known.name)

    def _sink_options(self, key: str, sink: Sink, known: SinkFormat) -> None:
        unknown = sink.options.keys() - (known.options or sink.options.keys())
        for option in sorted(option for option in unknown if not option.startswith(known.option_prefixes)):
            hint = f"valid, nearest first: {nearest(option, known.options or ())}; {known.options_hint}"
            self._add("UNKNOWN_KEY", f"`{key}` has no key `{option}`", hint.removesuffix("; "), f"{key}.{option}")
        for each in known.patterns:
            if each.option in sink.options and not re.match(each.pattern, str(sink.options[each.option])):
                place = f"{key}.{each.option}"
                self._add(each.code, f"`{place}` is not {each.what}", each.hint, place)

    def _needs(self, key: str, missing: str, format_: str, hint: str | None = None) -> None:
        message = f"`{key}` needs the key `{missing}`, because its format is {format_}"
        self._add("MISSING_KEY", message, hint, f"{key}.{missing}")

    def transform(self, key: str, transform: Transform) -> str:
        # Another transform may read this one, which only the planner can tell.
        if not transform.sinks and len(self._section("transforms")) == 1:
            hint = f"name one of: {nearest('', self._sinks)}"
            self._add("MISSING_KEY", f"`{key}` needs the key `sink`", hint, f"{key}.sink")
        for position, name in enumerate(transform.sinks):
            place = f"{key}.sink[{position}]" if len(transform.sinks) > 1 else f"{key}.sink"
            self._sink_exists(name, place, (), hidden=transform.hides("sink"))
        for kind, route in transform.side_output.routes().items():
            place = f"{key}.side_output.{kind}.sink"
            self._sink_exists(route.sink, place, (METRICS_ONLY, REINJECT), hidden=route.hides("sink"))
            self._sink_exists(route.then, f"{key}.side_output.{kind}.then", (METRICS_ONLY,), hidden=route.hides("then"))
        return self._sql(key, transform)

    def _sink_exists(self, name: str, key: str, also: tuple[str, ...], *, hidden: bool) -> None:
        if name not in self._sinks and name not in also:
            choices = nearest("" if hidden else name, [*self._sinks, *also])
            message = f"`{key}` names the sink `{MASK if hidden else name}`, which is not declared"
            self._add("UNKNOWN_SINK", message, f"valid, nearest first: {choices}", key)

    def _sql(self, key: str, transform: Transform) -> str:
        if transform.sql is not None and transform.sql_file is not None:
            self._add("CONFLICTING_KEYS", f"`{key}` has both `sql` and `sql_file`", "keep one", f"{key}.sql_file")
        elif transform.sql_file is not None:
            shown = MASK if transform.hides("sql_file") else transform.sql_file
            return self._read(Path(transform.sql_file), f"{key}.sql_file", shown)
        elif transform.sql is None:
            hint = "write the query as sql, or name a file with it as sql_file"
            self._add("MISSING_KEY", f"`{key}` needs the key `sql` or `sql_file`", hint, f"{key}.sql")
        return transform.sql or ""

    def _read(self, file: Path, key: str, shown: str) -> str:
        try:
            return (self._origin.base_dir / file).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            hint = "the path is relative to the folder of pipeline.toml"
            self._add("SQL_FILE_NOT_FOUND", f"`{key}`: there is no file `{shown}`", hint, key)
        except UnicodeDecodeError:
            self._add("SQL_FILE_NOT_UTF8", f"`{key}`: `{shown}` is not UTF-8", "save it as UTF-8", key)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a path"
            self._add("SQL_FILE_UNREADABLE", f"`{key}`: `{shown}` cannot be read: {reason}", None, key)
        return ""
