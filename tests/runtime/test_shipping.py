"""What executors of a cluster are sent, and what spark-submit must have been told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import windowpane
from windowpane.config import SparkSettings, parse_pipeline
from windowpane.errors import ConfigError
from windowpane.spark.gateway import _command
from windowpane.spark.session import _configuration
from windowpane.spark.shipping import bundle_settings
from windowpane.spark.submission import check_submission

BASE = Path("/jobs")
PIPELINE = {
    "streams": {"s": {"format": "rate"}},
    "transforms": {"t": {"sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)", "sink": "out"}},
    "sinks": {"out": {"format": "console"}},
}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize(
    ("spark", "sent"),
    [
        ({"master": "spark://h:7077", "bundle": "hdfs:///b.tar.gz"}, {"spark.archives": "hdfs:///b.tar.gz#windowpane"}),
        ({"master": "yarn", "bundle": "b.tar.gz", "archives": ["m.zip#model"]},
         {"spark.archives": "/jobs/m.zip#model,/jobs/b.tar.gz#windowpane"}),
        ({"master": "k8s://https://h", "bundle": False}, {}),
        ({"master": "yarn", "bundle": "b.tar.gz", "config": {"spark.pyspark.python": "/usr/bin/python3"}}, {}),
        ({"master": "local[2]", "bundle": "b.tar.gz"}, {}),
        ({"bundle": "b.tar.gz"}, {}),
    ],
)  # fmt: skip
def test_who_gets_a_bundle(spark: dict[str, object], sent: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    settings = _settings(spark)
    assert bundle_settings(_configuration(settings, BASE), settings, BASE) == sent
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert bundle_settings(_configuration(settings, BASE), settings, BASE) == {}, "the user's choice"


def test_sockets_of_workers_on_yarn_have_no_long_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    key = "spark.python.unix.domain.socket.enabled"
    assert _configuration(SparkSettings(master="yarn"), BASE)[key] == "false"
    assert _configuration(SparkSettings(master="spark://h:7077"), BASE)[key] == "true"
    assert _configuration(SparkSettings(master="yarn", config={key: True}), BASE)[key] == "true", "the user's choice"


def test_spark_submit_in_client_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(ConfigError) as refused:
        bundle_settings({"spark.master": "yarn"}, SparkSettings(), BASE)
    assert refused.value.code == "SPARK_SUBMIT"
    for more in ({"spark.pyspark.python": "/usr/bin/python3"}, {"spark.submit.deployMode": "cluster"}):
        assert bundle_settings({"spark.master": "yarn"} | more, SparkSettings(), BASE) == {}


def test_everything_that_spark_submit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    settings = _settings({
        "master": "yarn", "packages": ["g:a:1"], "exclude_packages": ["g:b"], "repositories": ["https://repo"],
        "jars": ["lib/x.jar", "hdfs:///y.jar"], "py_files": ["udfs.py"], "files": ["file:/etc/krb5.conf"],
        "archives": ["model.zip#model"], "proxy_user": "etl", "config": {"spark.yarn.queue": "q"},
    })  # fmt: skip
    config = _configuration(settings, BASE)
    assert config | {
        "spark.jars": "/jobs/lib/x.jar,hdfs:///y.jar", "spark.jars.packages": "g:a:1", "spark.jars.excludes": "g:b",
        "spark.jars.repositories": "https://repo", "spark.submit.pyFiles": "/jobs/udfs.py",
        "spark.files": "file:/etc/krb5.conf", "spark.archives": "/jobs/model.zip#model", "spark.yarn.queue": "q",
    } == config  # fmt: skip
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    command = _command(Path("settings"), "etl")
    assert command[-3:] == ["--proxy-user", "etl", "pyspark-shell"]


@pytest.mark.parametrize(
    ("spark", "code"),
    [
        ({"config": {PROVIDER: "a.HDFSBackedStateStoreProvider"}}, "SPARK_SETTING"),
        ({"config": {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": False}}, "SPARK_SETTING"),
        ({"config": {"spark.submit.deployMode": "cluster"}}, "SPARK_SETTING"),
        ({"config": {"spark.archives": "a.zip"}}, "CONFLICTING_KEYS"),
        ({"bundle": False, "bundle_packages": ["scipy"]}, "CONFLICTING_KEYS"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(spark: dict[str, object], code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _settings(spark)
    assert refused.value.code == code


def test_what_spark_submit_was_not_told() -> None:
    given = {"spark.jars": "file:/staged/x.jar,file:/staged/y.jar", "spark.files": ""}
    check_submission({"spark.jars": "/jobs/x.jar"}, given, None)
    with pytest.raises(ConfigError) as refused:
        check_submission({"spark.jars": "/jobs/z.jar", "spark.files": "/jobs/f"}, given, "etl")
    assert refused.value.code == "SPARK_SUBMIT"
    assert "--jars, --files, --proxy-user" in refused.value.message


@pytest.mark.parametrize(
    "program", [["-m", "windowpane"], [str(Path(windowpane.__file__).with_name("application.py"))]]
)
def test_other_ways_to_start_the_program(program: list[str]) -> None:
    done = subprocess.run([sys.executable, *program, "--version"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"windowpane {windowpane.__version__}\n", "")


def _settings(spark: dict[str, object]) -> SparkSettings:
    return parse_pipeline(PIPELINE | {"spark": spark}).spark
