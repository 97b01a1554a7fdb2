"""The registries of formats: every target can be loaded, and no other module keeps a list of formats."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import windowpane
from windowpane.config import parse_pipeline, parse_stream
from windowpane.connectors.files import FileSink
from windowpane.errors import ConfigError
from windowpane.formats import CODECS, SINKS, SOURCES, SourceFormat, load, sink_format, source_format
from windowpane.runtime.routes import build_sink
from windowpane.sql import sampling

SRC = Path(windowpane.__file__).parent
REPOSITORY = Path(__file__).parents[2]
NOT_FORMATS = {"sql/sampling.py", "cli/connectors.py", "runtime/asking/side_files.py"}
"""Modules that list names of other things: suffixes of files, extras, sinks."""


def test_all_code_that_formats_name_is_there() -> None:
    sources = [source for name in SOURCES.names if (source := SOURCES.find(name))]
    codecs = [codec for name in CODECS.names if (codec := CODECS.find(name))]
    targets = [source.file_reader for source in sources if source.file_reader]
    targets += [sink.sink for name in SINKS.names if (sink := SINKS.find(name))]
    targets += [target for codec in codecs for target in (codec.workers, codec.spark) if target]
    assert len(targets) > 4
    assert all(callable(load(target)) for target in targets)
    assert all(source.codec is None or CODECS.find(source.codec) for source in sources)


def test_guarantees_are_those_that_the_classes_declare() -> None:
    assert {name: sink_format(name).exactly_once for name in SINKS.names} == {
        name: load(sink_format(name).sink).delivery == "exactly_once" for name in SINKS.names
    }


def test_options_that_a_table_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_pipeline({
            "streams": {"s": {"format": "Delta", "path": "x", "options": {"ignoreChanges": True}}},
            "sinks": {"out": {"format": "memory"}}, "transforms": {"q": {"sql": "SELECT 1", "sink": "out"}},
        })  # fmt: skip
    assert (refused.value.code, refused.value.key) == ("UNKNOWN_KEY", "streams.s.options.ignoreChanges")
    assert "skip_changes" in (refused.value.hint or "")


@pytest.mark.parametrize(("option", "value"), [("mode", "DROPMALFORMED"), ("columnNameOfCorruptRecord", "bad")])
def test_what_becomes_of_bad_records_is_no_option(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match="become error rows") as refused:
        parse_pipeline({
            "streams": {"s": {"format": "csv", "path": "x", "schema": "a INT", "options": {option: value}}},
            "sinks": {"out": {"format": "memory"}}, "transforms": {"q": {"sql": "SELECT 1", "sink": "out"}},
        })  # fmt: skip
    assert (refused.value.code, refused.value.key) == ("BAD_VALUE", f"streams.s.options.{option}")


def test_schemas_are_inferred_from_files_of_the_formats_that_say_so() -> None:
    said = {name for name in SOURCES.names if source_format(name).sampled}
    assert said == set(SOURCES.names) & {*sampling._READERS, *sampling._COLUMNAR}


def test_no_other_module_lists_formats() -> None:
    known = {name for name in SOURCES.names if name != "text"}
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if "formats" not in path.relative_to(SRC).parts and path.relative_to(SRC).as_posix() not in NOT_FORMATS
        if sum(f'"{name}"' in (text := path.read_text(encoding="utf-8")) for name in known) > 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.expr) and len(known & _texts(node)) > 1
    ]
    assert not found


def _texts(node: ast.expr) -> set[str]:
    items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def test_a_name_counts_in_any_letter_case() -> None:
    stream = parse_stream("s", {"format": "Kafka", "schema": "a BIGINT"})
    assert stream.format == "kafka"
    assert stream.codec is CODECS.find("JSON")
    assert parse_stream("s", {"format": "hudi"}).source_format == SourceFormat("hudi"), "a format that only Spark knows"


def test_the_documented_delivery_of_each_sink_is_that_of_its_class() -> None:
    table = (REPOSITORY / "docs" / "connectors.md").read_text(encoding="utf-8").split("## Delivery guarantees")[1]
    documented: dict[str, str] = {}
    for names, delivery in re.findall(r"^\| (`[^|]*) \| ([a-z ]+) \|", table.split("\n## ")[0], re.MULTILINE):
        documented |= dict.fromkeys(re.findall(r"`([^`]+)`", names), delivery.replace(" ", "_"))
    declared = {name: load(sink.sink).delivery for name in SINKS.names if (sink := SINKS.find(name))}
    assert documented == declared


def test_what_is_delivered_exactly_once_can_be_taken_back() -> None:
    """Otherwise a pipeline that goes back to a savepoint would write it twice.

    Memory ends with its process, and Redis keeps results by window and group.
    """
    once = {name for name in SINKS.names if load(sink_format(name).sink).delivery == "exactly_once"}
    assert {name for name in SINKS.names if sink_format(name).takes_back is not None} == once - {"memory", "redis"}


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ConfigError, match="already a source format `JSON`"):
        SOURCES.register(SourceFormat("JSON"))


def test_decoding_options_are_those_that_select_nothing() -> None:
    options = {"Subscribe": "t", "kafkaConsumer.pollTimeoutMs": "1", "timestampFormat": "yyyy"}
    assert source_format("kafka").decoding_options(options) == {"timestampFormat": "yyyy"}


@pytest.mark.parametrize("name", ["rate", "rate-micro-batch", "kafka"])
def test_sources_with_a_timestamp_column_stamp_their_rows(name: str) -> None:
    known = source_format(name)
    assert known.timestamp in dict(known.columns or ())


def test_a_files_sink_takes_its_path_from_the_options_too(tmp_path: Path) -> None:
    config = parse_pipeline(
        {
            "streams": {"s": {"format": "rate"}},
            "sinks": {"out": {"format": "JSON", "options": {"path": "results"}}},
            "transforms": {"t": {"sql": "SELECT 1", "sink": "out"}},
        },
        tmp_path,
    )
    sink = build_sink(config, "out", config.sinks["out"])
    assert (type(sink), vars(sink)["_path"]) == (FileSink, str(tmp_path / "results"))
    assert "path" not in vars(sink)["_options"]
