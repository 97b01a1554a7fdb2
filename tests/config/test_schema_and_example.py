"""The schema for editors agrees with the loader, and the example that `init` writes works."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from windowpane.config import EXAMPLE_PIPELINE, load_pipeline, parse_pipeline, write_example
from windowpane.config.example import example_data
from windowpane.config.schema import json_schema, render_schema
from windowpane.config.settings import Settings
from windowpane.errors import ConfigError
from windowpane.plan.explain import SECTIONS, explain
from windowpane.plan.pipeline import plan_pipeline

DOCS = Path(__file__).parents[2] / "docs"


def _is_valid(document: object) -> bool:
    return bool(jsonschema.Draft202012Validator(json_schema()).is_valid(document))


def test_the_written_schema_is_up_to_date() -> None:
    assert (DOCS / "windowpane.schema.json").read_text(encoding="utf-8") == render_schema(), (
        "run: python -m windowpane.config.schema > docs/windowpane.schema.json"
    )


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_every_key_has_a_description() -> None:
    definitions = [json_schema(), *json_schema()["$defs"].values()]
    bare = [name for item in definitions for name, key in item["properties"].items() if not key.get("description")]

    assert bare == []


def test_every_key_is_documented() -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    keys = {key for model in _models(Settings) for key in model.keys()}  # noqa: SIM118 -- keys() is a method of models

    assert {key for key in keys if f"`{key}`" not in text and f".{key}`" not in text and f"[{key}" not in text} == set()
    assert len(keys) > 35


def test_the_examples_of_the_documentation_load() -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    whole = text.split("```toml\n")[1].split("```")[0]

    assert parse_pipeline(whole, env={}).transforms


def test_the_schema_accepts_the_example_and_refuses_what_the_loader_refuses() -> None:
    document = tomllib.loads(EXAMPLE_PIPELINE)
    assert _is_valid(document)

    for path, value in _mistakes():
        broken = json.loads(json.dumps(document))
        table = broken
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
        assert not _is_valid(broken), path
        with pytest.raises(ConfigError):
            parse_pipeline(broken)


def _mistakes() -> Iterator[tuple[tuple[str, ...], Any]]:
    yield ("optoins",), {}
    yield ("options", "late_rule"), "rows"
    yield ("options", "trigger"), "sometimes"
    yield ("options", "idle_timeout"), "5 parsecs"
    yield ("options", "max_future_skew"), "-5s"
    yield ("options", "shards"), 0
    yield ("transforms", "hot", "allowed_lateness"), 5
    yield ("transforms", "hot", "sql_file"), "x.sql"
    yield ("transforms", "hot", "sink"), []
    yield ("transforms", "hot", "dedupe"), {"key": ["a"]}
    yield ("transforms", "hot", "side_output", "late"), "dlq"
    yield ("transforms", "hot", "side_output", "error", "enable_reinject"), True
    yield ("transforms", "hot", "side_output", "error", "rate_limit"), 0
    yield ("streams", "my stream"), {"format": "rate"}
    yield ("streams", "bids", "format"), ""
    yield ("streams", "bids", "options", "list"), [1]
    yield ("sinks", "x"), {"path": "y"}


@pytest.mark.parametrize("text", ["5s", "1h 30m", "0.5 seconds", "${LAG}", "${LAG:-5s}", "0s", "2 weeks"])
def test_the_schema_takes_the_durations_that_the_loader_takes(text: str) -> None:
    document = tomllib.loads(EXAMPLE_PIPELINE)
    document["transforms"]["hot"]["allowed_lateness"] = text

    assert _is_valid(document)
    assert parse_pipeline(document, env={"LAG": "5s"}).transforms["hot"].allowed_lateness_us is not None


def test_the_example_is_written_and_loads(tmp_path: Path) -> None:
    written = write_example(tmp_path / "new")

    config = load_pipeline(tmp_path / "new" / "pipeline.toml", env={})

    assert written[0].name == "pipeline.toml"
    assert len(list(Path(config.resolve(config.streams["bids"].path or "")).iterdir())) == len(written) - 1
    ages = [path.stat().st_mtime for path in sorted(written[1:])]
    assert ages == sorted(set(ages))


def test_the_commented_lines_of_the_example_are_valid_too() -> None:
    lines = EXAMPLE_PIPELINE.splitlines()
    opened = [line[2:] if re.match(r"# (\[|\w+ = )", line) else line for line in lines]

    config = parse_pipeline("\n".join(opened), env={"WAREHOUSE_URL": "postgresql://h/db"})

    assert set(config.sinks) == {"results", "dlq", "alerts", "warehouse"}
    assert config.transforms["hot"].dedupe is not None
    assert config.tables["auctions"].format == "parquet"


@pytest.mark.parametrize("folder", [None, DOCS.parent / "examples" / "hot_items"])
def test_the_first_example_is_the_fast_one(folder: Path | None, tmp_path: Path) -> None:
    if folder is None:
        write_example(tmp_path)
    (plan,) = plan_pipeline(load_pipeline((folder or tmp_path) / "pipeline.toml", env={}))
    assert plan.scan is not None
    assert "by auction" in str(explain(plan, SECTIONS))


@pytest.mark.parametrize(
    "file", sorted((DOCS.parent / "examples").glob("*/pipeline.toml")), ids=lambda it: it.parent.name
)
def test_every_example_can_be_planned(file: Path) -> None:
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", file.read_text(encoding="utf-8")), "postgresql://host/x")
    assert plan_pipeline(load_pipeline(file, env=env))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "data" / "bids").mkdir(parents=True)
    (tmp_path / "data" / "bids" / "bids-002.json").write_text("mine", encoding="utf-8")

    with pytest.raises(ConfigError) as raised:
        write_example(tmp_path)

    assert raised.value.code == "FILE_EXISTS"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["bids-002.json"]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError) as raised:
        write_example(tmp_path / "file")

    assert raised.value.code == "CANNOT_WRITE"


def test_the_sample_data_has_all_kinds_of_trouble() -> None:
    rows = [line for text in example_data().values() for line in text.splitlines()]
    times = [json.loads(row)["ts"] for row in rows[:30]]

    assert example_data() == example_data()
    assert times != sorted(times)
    assert sum('"ts": "2026-01-01T00:00:0' in row for row in example_data()["bids-004.json"].splitlines()) == 1
    assert sum(not row.endswith("}") for row in rows) == 1
    assert sum("yesterday" in row for row in rows) == 1


def _models(base: type[Settings]) -> list[type[Settings]]:
    return [model for child in base.__subclasses__() for model in [child, *_models(child)]]
