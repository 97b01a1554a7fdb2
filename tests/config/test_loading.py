"""Files, texts and dicts become the same checked configuration; what cannot be read says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from windowpane.config import (
    MultipleConfigError,
    Trigger,
    find_pipeline,
    load_pipeline,
    parse_options,
    parse_pipeline,
    parse_sink,
    parse_stream,
    parse_table,
    parse_transform,
)
from windowpane.errors import ConfigError

FULL = '''
[streams.bids]
format = "json"
path = "data/bids"
schema = "auction BIGINT, price BIGINT, ts STRING"
eventtime = { column = "ts", type = "iso8601", strict = true }
options = { maxFilesPerTrigger = 4, multiLine = false }

[tables.auctions]
format = "parquet"
path = "data/auctions"

[options]
eventtime = { enabled = true, late_tolerance = "5s", strict = true }
late_rule = "row"
max_future_skew = "off"
idle_timeout = "1m"
checkpoint = "state/hot"
trigger = "10s"
shards = 4
max_rows_per_batch = 5000000

[transforms.hot]
sql = """SELECT 1"""
sink = ["results", "archive"]
event_time_field = "seen_at"
watermark_lag = "1m 30s"
allowed_lateness = "10s"
dedupe = { key = ["auction", "ts"], within = "10m" }
limits = { max_groups = 100000 }
[transforms.hot.side_output]
late.sink = "reinject"
late.enable_reinject = true
late.max_reinjections = 5
error = { sink = "archive", include_original = true, rate_limit = "off" }
evicted.rate_limit = 10

[sinks.results]
format = "postgres"
mode = "update"
options = { url = "postgresql://localhost/db", table = "hot" }
[sinks.archive]
format = "json"
path = "out"

[spark]
master = "local[2]"
app_name = "hot"
packages = ["a:b:1"]
jars = ["lib/x.jar"]
[spark.config]
spark.sql.shuffle.partitions = 4
"spark.speculation" = true
"spark.speculation.interval" = "1s"
'''

MINIMAL = {
    "streams": {"s": {"format": "rate"}},
    "transforms": {"t": {"sql": "SELECT 1", "sink": "out"}},
    "sinks": {"out": {"format": "console"}},
}


def test_every_key_arrives_in_its_field() -> None:
    config = parse_pipeline(FULL)

    stream, options, hot = config.streams["bids"], config.options, config.transforms["hot"]
    assert (stream.format, stream.path, stream.schema_) == (
        "json", "data/bids", "auction BIGINT, price BIGINT, ts STRING")  # fmt: skip
    assert stream.eventtime is not None
    assert (stream.eventtime.column, stream.eventtime.type, stream.eventtime.strict) == ("ts", "iso8601", True)
    assert stream.spark_options == {"maxFilesPerTrigger": "4", "multiLine": "false"}
    assert config.tables["auctions"].path == "data/auctions"
    assert (options.eventtime.enabled, options.eventtime.late_tolerance_us, options.eventtime.strict) == (
        True, 5_000_000, True)  # fmt: skip
    assert (options.late_rule, options.max_future_skew_us, options.idle_timeout_us) == ("row", None, 60_000_000)
    assert (options.checkpoint, options.trigger) == ("state/hot", Trigger("interval", 10_000_000))
    assert (options.shards, options.max_rows_per_batch) == (4, 5_000_000)
    assert (hot.query, hot.sinks, hot.event_time_field) == ("SELECT 1", ("results", "archive"), "seen_at")
    assert (hot.watermark_lag_us, hot.allowed_lateness_us) == (90_000_000, 10_000_000)
    assert hot.dedupe is not None
    assert (hot.dedupe.key, hot.dedupe.within_us, hot.limits.max_groups) == (("auction", "ts"), 600_000_000, 100_000)
    late, error = hot.side_output.late, hot.side_output.error
    assert (late.sink, late.enable_reinject, late.max_reinjections) == ("reinject", True, 5)
    assert (error.sink, error.include_original, error.rate_limit) == ("archive", True, None)
    assert (hot.side_output.evicted.sink, hot.side_output.evicted.rate_limit) == ("metrics_only", 10)
    assert (config.sinks["results"].mode, config.sinks["results"].spark_options["table"]) == ("update", "hot")
    spark = config.spark
    assert (spark.master, spark.app_name, spark.packages, spark.jars) == (
        "local[2]", "hot", ("a:b:1",), ("lib/x.jar",))  # fmt: skip
    assert spark.spark_config == {
        "spark.sql.shuffle.partitions": "4", "spark.speculation": "true", "spark.speculation.interval": "1s",
    }  # fmt: skip


def test_defaults() -> None:
    config = parse_pipeline(MINIMAL)

    options, transform = config.options, config.transforms["t"]
    assert (options.eventtime.enabled, options.eventtime.late_tolerance_us, options.eventtime.strict) == (
        None, 0, False)  # fmt: skip
    assert (options.late_rule, options.max_future_skew_us, options.idle_timeout_us) == ("window", 300_000_000, None)
    assert (options.checkpoint, options.trigger, options.shards) == (None, Trigger("as_fast_as_possible"), None)
    assert (transform.watermark_lag_us, transform.allowed_lateness_us, transform.dedupe) == (None, None, None)
    assert {kind: route.sink for kind, route in transform.side_output.routes().items()} == dict.fromkeys(
        ("late", "error", "evicted", "duplicate", "unmatched"), "metrics_only"
    )


def test_what_is_dumped_loads_as_the_same_configuration() -> None:
    config = parse_pipeline(FULL)

    assert parse_pipeline(config.dump()).dump() == config.dump()
    assert config.dump()["options"]["max_future_skew"] == "off"
    assert config.dump()["transforms"]["hot"]["watermark_lag"] == "1m 30s"


def test_dotted_keys_of_python_dicts_mean_nested_tables() -> None:
    flat = parse_options({"eventtime.enabled": True, "eventtime.late_tolerance": "5s", "shards": 2})

    assert flat == parse_options({"eventtime": {"enabled": True, "late_tolerance": "5s"}, "shards": 2})
    assert parse_options({"eventtime.enabled": False, "eventtime": {"strict": True}}).eventtime.strict is True
    transform = parse_transform({"side_output.late.sink": "dlq", "side_output": {"late.include_original": True}})
    assert (transform.side_output.late.sink, transform.side_output.late.include_original) == ("dlq", True)
    assert parse_stream("s", {"eventtime.column": "ts"}).eventtime == parse_stream(
        "s", {"eventtime": {"column": "ts"}}).eventtime  # fmt: skip


def test_dotted_paths_from_the_top_reach_into_named_tables() -> None:
    config = parse_pipeline(
        {
            "streams.s.format": "rate",
            "transforms.t.sql": "SELECT 1",
            "transforms.t": {"sink": "o"},
            "sinks.o.format": "console",
            "options.eventtime.enabled": True,
        }
    )

    assert config.transforms["t"].sinks == ("o",)
    assert config.options.eventtime.enabled is True


def test_dots_in_names_of_spark_options_stay() -> None:
    written = parse_stream("s", {"options": {"kafka": {"bootstrap": {"servers": "h:1"}}, "kafka.group.id": "g"}})

    assert written.options == {"kafka.bootstrap.servers": "h:1", "kafka.group.id": "g"}
    with pytest.raises(ConfigError, match=r"`kafka.x` is set twice"):
        parse_stream("s", {"options": {"kafka": {"x": 1}, "kafka.x": 2}})


def test_the_spelling_of_other_engines_is_understood() -> None:
    assert parse_options({"eventtime.lateTolerance": "5s"}).eventtime.late_tolerance_us == 5_000_000


def test_parts_need_no_whole_pipeline() -> None:
    assert parse_transform({"allowed_lateness": "2s"}).allowed_lateness_us == 2_000_000
    assert parse_stream("s", {"schema": "ts BIGINT"}).schema_ == "ts BIGINT"
    assert parse_table("t", {"schema": "id BIGINT"}).format is None
    assert parse_sink("o", {"format": "memory"}).format == "memory"


@pytest.mark.parametrize(
    ("call", "code", "key"),
    [
        (lambda: parse_options({"late_rul": "row"}), "UNKNOWN_KEY", "options.late_rul"),
        (lambda: parse_transform({"allowed_lateness": "x"}), "BAD_DURATION", "transform.allowed_lateness"),
        (lambda: parse_transform({"sinks": "x"}, name="hot"), "UNKNOWN_KEY", "transforms.hot.sinks"),
        (lambda: parse_stream("s", {"eventtime": {}}), "MISSING_KEY", "streams.s.eventtime.column"),
        (lambda: parse_stream("s", {"path": "${NOPE}"}, env={}), "MISSING_ENV", "streams.s.path"),
        (lambda: parse_options({"eventtime.enabled": 1, "eventtime": 2}), "DUPLICATE_KEY", "options"),
    ],
)  # fmt: skip
def test_errors_of_parts_name_the_key(call: Callable[[], object], code: str, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        call()

    assert (raised.value.code, raised.value.key) == (code, key)


def test_models_are_frozen() -> None:
    config = parse_pipeline(MINIMAL)

    with pytest.raises(ValueError, match="frozen"):
        config.options.shards = 3


def test_a_file_is_loaded_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "hot.sql").write_text("SELECT '${x}'", encoding="utf-8")
    file = tmp_path / "pipeline.toml"
    file.write_bytes(b"\xef\xbb\xbf" + FULL.replace('sql = """SELECT 1"""', 'sql_file = "queries/hot.sql"').encode())

    config = load_pipeline(file)

    assert config.transforms["hot"].query == "SELECT '${x}'"
    assert (config.file, config.base_dir) == (str(file), tmp_path)
    assert config.resolve("data/bids") == str(tmp_path / "data" / "bids")
    assert config.resolve("s3a://bucket/x") == "s3a://bucket/x"
    assert config.line_of("options.late_rule") == 15


def test_later_layers_raise_errors_with_the_place() -> None:
    error = parse_pipeline(FULL, file="p.toml").error("UNKNOWN_TYPE", "no such type", key="streams.bids.eventtime.type")

    assert error.render() == "[UNKNOWN_TYPE] no such type\n  at p.toml:6 key `streams.bids.eventtime.type`"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_pipeline(tmp_path / "no.toml")

    assert raised.value.code == "CONFIG_NOT_FOUND"
    assert "windowpane init" in str(raised.value)


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_pipeline(tmp_path)

    assert raised.value.code == "CONFIG_IS_FOLDER"
    assert str(tmp_path / "pipeline.toml") in (raised.value.hint or "")


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_bytes(b"# fine\n# caf\xe9\n")

    with pytest.raises(ConfigError) as raised:
        load_pipeline(tmp_path / "p.toml")

    assert (raised.value.code, raised.value.line) == ("CONFIG_NOT_UTF8", 2)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError) as raised:
        load_pipeline(tmp_path / "file" / "p.toml")

    assert raised.value.code == "CONFIG_UNREADABLE"


@pytest.mark.parametrize(
    ("name", "code"),
    [("bytes", "SQL_FILE_NOT_UTF8"), ("folder", "SQL_FILE_UNREADABLE"), ("nul\0", "SQL_FILE_UNREADABLE")],
)
def test_an_sql_file_that_cannot_be_used(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff")

    with pytest.raises(ConfigError) as raised:
        parse_pipeline(MINIMAL | {"transforms": {"t": {"sql_file": name, "sink": "out"}}}, base_dir=tmp_path)

    assert raised.value.code == code


def test_several_problems_are_one_error_for_scripts_too() -> None:
    with pytest.raises(MultipleConfigError) as raised:
        parse_pipeline("options = { shards = 0 }\n[streams.s]\nformat = 1\n", file="p.toml")

    data = raised.value.as_dict()
    assert (data["code"], data["line"], data["file"]) == ("BAD_VALUE", 1, "p.toml")
    assert [other.code for other in raised.value.others] == ["BAD_TYPE", "NO_TRANSFORMS"]
    assert raised.value.exit_code == 2


def test_the_pipeline_is_found_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pipeline.toml").touch()

    assert find_pipeline(inner) == tmp_path / "pipeline.toml"
    assert find_pipeline(tmp_path / "pipeline.toml") == tmp_path / "pipeline.toml"
    monkeypatch.chdir(inner)
    assert find_pipeline(".").resolve() == (tmp_path / "pipeline.toml").resolve()
    (inner / "pipeline.toml").touch()
    assert find_pipeline(".") == Path("pipeline.toml")


def test_no_pipeline_anywhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        find_pipeline(tmp_path)

    assert raised.value.code == "CONFIG_NOT_FOUND"
    assert "any folder above" in raised.value.message


@pytest.mark.parametrize(
    ("given", "pauses"),
    [
        ({}, [0.5, 1, 2, 4, 8, 10, 10, 10, 10]),
        ({"attempts": 3, "pause": "2s", "max_pause": "3s"}, [2, 3]),
        ({"attempts": 1}, []),
    ],
)
def test_a_sink_is_tried_again_after_pauses_that_double(given: dict[str, object], pauses: list[float]) -> None:
    assert list(parse_sink("s", {"format": "console", "retry": given}).retry.pauses) == pauses
