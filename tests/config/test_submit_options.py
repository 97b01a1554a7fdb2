"""`[spark]` hands over everything that `spark-submit` takes: the table of options against its own `--help`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark
import pytest

from windowpane.config import SparkSettings, parse_pipeline
from windowpane.config.submit_options import OPTIONS, SubmitOption
from windowpane.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
PIPELINE = {
    "streams": {"s": {"format": "json", "path": "in", "schema": "ts TIMESTAMP"}},
    "transforms": {"q": {"sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)", "sink": "out"}},
    "sinks": {"out": {"format": "json", "path": "out"}},
}
KEYS_OF_OURS = {"bundle", "bundle_packages", "functions"}


@pytest.mark.spark
def test_every_option_of_spark_submit_is_known() -> None:
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--help"]
    environment = os.environ | {"SPARK_HOME": str(SPARK_HOME)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    listed = set(re.findall(r"^ +(--[a-z-]+)", done.stderr + done.stdout, re.MULTILINE))
    assert len(listed) > 25, done.stderr
    assert {option.name for option in OPTIONS} == listed


def test_every_key_is_an_option_or_one_of_ours() -> None:
    keys = {option.key for option in OPTIONS if option.key}
    assert set(SparkSettings.model_fields) == keys | KEYS_OF_OURS


def test_every_option_has_one_place_and_the_docs_name_it() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").partition("## `[spark]`")[2]
    for option in OPTIONS:
        assert not (option.key and option.refused), option
        assert (f"| `{option.key}` |" if option.key else f"`{option.name}`") in text, option
        if not option.key and not option.refused:
            assert f"`{option.property}`" in text, option
            SparkSettings.model_validate({"config": {option.property: "4"}})


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.property and (each.key or each.refused)])
def test_a_property_with_a_key_or_a_reason_is_refused_among_the_others(option: SubmitOption) -> None:
    spark = {"config": {option.property: "x"}}
    with pytest.raises(ConfigError) as refused:
        parse_pipeline(PIPELINE | {"spark": spark})
    assert refused.value.code == ("CONFLICTING_KEYS" if option.key else "SPARK_SETTING")
    if option.allowed:
        SparkSettings.model_validate({"config": {option.property: option.allowed}})
