"""Values from the environment reach those who need them and nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windowpane.config import PipelineConfig, checkpoint_setting, parse_pipeline, parse_sink, parse_stream
from windowpane.config.secrets import Substitution
from windowpane.errors import ConfigError
from windowpane.runtime.location import store_of_file

PASSWORD = "hunter2-secret"


@pytest.fixture
def config() -> PipelineConfig:
    text = """
    [streams.s]
    format = "kafka"
    options.kafka.bootstrap.servers = "h:1"
    options.subscribe = "t"
    options.kafka.sasl.jaas.config = "user password='${PASSWORD}';"
    [transforms.t]
    sql = "SELECT '${PASSWORD}'"
    sink = ["${PASSWORD}", "pg"]
    allowed_lateness = "${LATENESS:-7s}"
    side_output.late = { sink = "${PASSWORD}" }
    [sinks.hunter2-secret]
    format = "console"
    [sinks.pg]
    format = "postgres"
    options = { url = "postgresql://u:${PASSWORD}@h/db", table = "x" }
    [spark]
    jars = ["plain.jar", "${PASSWORD}.jar"]
    """
    return parse_pipeline(text, env={"PASSWORD": PASSWORD})


def test_the_values_are_there_for_use(config: PipelineConfig) -> None:
    assert config.streams["s"].spark_options["kafka.sasl.jaas.config"] == f"user password='{PASSWORD}';"
    assert config.transforms["t"].query == f"SELECT '{PASSWORD}'"
    assert config.transforms["t"].sinks == (PASSWORD, "pg")
    assert config.transforms["t"].allowed_lateness_us == 7_000_000
    assert config.sinks["pg"].options["url"] == f"postgresql://u:{PASSWORD}@h/db"
    assert config.spark.jars == ("plain.jar", f"{PASSWORD}.jar")


def test_no_rendering_shows_them(config: PipelineConfig) -> None:
    parts = [config.transforms["t"], config.streams["s"], config.sinks["pg"], config.spark]
    shown = [
        repr(part) + str(part) + str(part.dump()) + part.model_dump_json() + str(part.model_dump()) for part in parts
    ]
    shown += [repr(config.streams["s"].spark_options), repr(config.sinks["pg"].options)]
    whole = config.model_dump(by_alias=True)
    del whole["sinks"][PASSWORD]

    assert PASSWORD not in "".join(shown)
    assert PASSWORD not in json.dumps(whole)
    assert "***" in shown[0]


def test_only_the_values_with_variables_are_hidden(config: PipelineConfig) -> None:
    assert config.dump()["spark"]["jars"] == ["plain.jar", "***"]
    assert config.dump()["sinks"]["pg"]["options"] == {"url": "***", "table": "x"}
    assert config.dump()["transforms"]["t"]["sink"] == ["***", "pg"]
    assert config.dump()["transforms"]["t"]["allowed_lateness"] == "***"
    assert config.dump()["streams"]["s"]["options"]["kafka.sasl.jaas.config"] == "***"
    assert config.dump()["streams"]["s"]["options"]["subscribe"] == "t"


def test_other_texts_are_redacted_on_request(config: PipelineConfig) -> None:
    assert config.redact(f"could not connect with {PASSWORD}!") == "could not connect with ***!"
    assert PASSWORD not in config.error("X", f"bad {PASSWORD}", f"not {PASSWORD}", key="sinks.pg").render()


def test_an_error_carries_no_trace_of_the_value() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_sink("s", {"format": "x", "mode": "${PASSWORD}"}, env={"PASSWORD": PASSWORD})

    assert PASSWORD not in raised.value.render() + repr(raised.value.as_dict()) + repr(raised.value.args)
    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${B}z", "x1y2z"),
        ("${MISSING:-d}", "d"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${MISSING:-a:-b c}", "a:-b c"),
        ("$${A}", "${A}"),
        ("$A costs $5", "$A costs $5"),
        ("${NESTED}", "${A}"),
    ],
)
def test_substitution(written: str, expected: str) -> None:
    substitution = Substitution({"A": "1", "B": "2", "EMPTY": "", "NESTED": "${A}"})

    assert substitution.apply({"k": [written]}) == {"k": [expected]}
    assert substitution.problems == []


def test_a_literal_is_no_secret() -> None:
    stream = parse_stream("s", {"options": {"pattern": "$${A}", "n": 5}}, env={})

    assert stream.dump()["options"] == {"pattern": "${A}", "n": 5}


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDOWPANE_TEST_FORMAT", "rate")

    assert parse_stream("s", {"format": "${WINDOWPANE_TEST_FORMAT}"}).format == "rate"


def test_every_missing_variable_is_reported_once_and_nothing_else_about_its_key() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_sink("s", {"format": "${A_MISSING}${B_MISSING}", "mode": "${C_MISSING}"}, env={})

    assert raised.value.render().count("[MISSING_ENV]") == 3
    assert "BAD_CHOICE" not in raised.value.render()


def test_where_the_checkpoint_is_needs_no_other_variable(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[sinks.a]\noptions = { password = "${NOT_SET}" }\n[options]\ncheckpoint = "${PLACE}/state"\n')
    assert checkpoint_setting(file, {"PLACE": "here"}) == "here/state"
    with pytest.raises(ConfigError, match="`PLACE` is not set"):
        checkpoint_setting(file, {})
    file.write_text('[sinks.a]\noptions = { password = "${NOT_SET}" }\n')
    assert store_of_file(file).address() == str(tmp_path / "state")
