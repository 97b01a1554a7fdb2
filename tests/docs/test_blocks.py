"""Every code block of README and docs runs: queries are planned, files are loaded, commands give what is shown.

With WINDOWPANE_COMPLETE=1 the pages are rewritten to show what the commands print, for review.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from tests.docs.blocks import LANGUAGES, ROOT, Block, blocks, blocks_of, chosen
from windowpane.cli.app import app
from windowpane.config import parse_options, parse_pipeline, parse_stream, parse_table
from windowpane.core.accumulators import registry
from windowpane.plan.build import plan_query
from windowpane.plan.eventtime.types import EVENTTIME_TYPES
from windowpane.plan.pipeline import stream_catalog
from windowpane.sql import bind

BIDS = "auction BIGINT, bidder BIGINT, price BIGINT, ts TIMESTAMP"
STREAMS: dict[str, dict[str, str]] = {
    "bids": {
        "bids": BIDS,
        "asks": "item BIGINT, price BIGINT, at TIMESTAMP",
        "persons": "id BIGINT, name STRING, at TIMESTAMP",
        "orders": "id BIGINT, items ARRAY<STRUCT<product: BIGINT, price: BIGINT>>, ts TIMESTAMP",
    },
    "clicks": {"clicks": "viewer STRING, page STRING, ms BIGINT, ts TIMESTAMP"},
}
TABLES = {"users": "id BIGINT, name STRING", "categories": "auction BIGINT, category STRING",
          "products": "id BIGINT, name STRING"}  # fmt: skip
BASE = {
    "streams": {"bids": {"format": "json", "path": "data", "schema": BIDS}},
    "transforms": {"hot": {"sql": "SELECT auction FROM bids", "sink": "results"}},
    "sinks": {name: {"format": "console"} for name in ("results", "dlq")},
}
ENVIRONMENT = {"DB_PASSWORD": "secret", "KAFKA": "localhost:9092"}


def test_every_block_names_a_language_that_is_checked() -> None:
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []
    assert {block.language for block in blocks()} == LANGUAGES


def test_every_skipped_block_has_a_reason() -> None:
    assert [str(block) for block in blocks() if not block.directives.get("skip", "a reason").strip()] == []


@pytest.mark.parametrize("block", chosen("sql"), ids=str)
def test_queries_are_planned(block: Block) -> None:
    streams = {
        name: parse_stream(name, {"format": "json", "path": "x", "schema": schema, "eventtime": {"column": time}})
        for name, schema in STREAMS[block.directives.get("streams", "bids")].items()
        for time in [re.findall(r"(\w+) TIMESTAMP", schema)[0]]
    }
    tables = {name: parse_table(name, {"format": "json", "schema": schema}) for name, schema in TABLES.items()}
    catalog = stream_catalog(streams, tables)
    for text in re.split(r"\n\s*\n|;", block.body):
        if text.strip():
            query = f"SELECT 1 AS one {text}" if "from" in block.directives else text
            plan_query(bind(query, catalog), streams, parse_options({"eventtime": {"enabled": True}}))


@pytest.mark.parametrize("block", chosen("toml"), ids=str)
def test_configurations_load(block: Block, tmp_path: Path) -> None:
    document = tomllib.loads(block.body)
    if not {"streams", "transforms", "sinks"} <= document.keys():
        document = merged(BASE, document)
    for transform in document["transforms"].values():
        if "sql_file" in transform:  # what the file holds stands elsewhere on the page
            transform.pop("sql_file")
            transform["sql"] = "SELECT auction FROM bids"
        elif "sql" not in transform:
            transform["sql"] = "SELECT auction FROM bids"
        transform.setdefault("sink", "results")
    assert parse_pipeline(toml_text(document), env=ENVIRONMENT).transforms


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], Mapping) and isinstance(over[key], Mapping):
            both[key] = merged(base[key], over[key])
    return both


def toml_text(document: Mapping[str, Any]) -> str:
    return "".join(f"{json.dumps(key, ensure_ascii=False)} = {toml_value(value)}\n" for key, value in document.items())


def toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("block", chosen("json"), ids=str)
def test_records_keep_to_their_schema(block: Block) -> None:
    record = json.loads(block.body)
    if "kind" in record:
        jsonschema.validate(record, json.loads((ROOT / "docs" / "side-record.schema.json").read_text()))


def pages_with(language: str) -> list[str]:
    return list(dict.fromkeys(block.page for block in chosen(language)))


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep_registries(monkeypatch)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(ROOT / page):
        write_file(block, tmp_path)
        if block in chosen("python"):
            exec(compile(block.body, str(block), "exec", dont_inherit=True), namespace)


def keep_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a page registers, aggregates and event-time types, after the test."""
    monkeypatch.setattr(registry, "_functions", dict(registry._functions))
    before = dict(EVENTTIME_TYPES._parsers)
    monkeypatch.setattr(EVENTTIME_TYPES, "_parsers", before)


def write_file(block: Block, folder: Path) -> None:
    if name := block.directives.get("file"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(block.body, encoding="utf-8")


def test_golden_files_hold(tmp_path: Path) -> None:
    assert chosen("slt")
    for number, block in enumerate(chosen("slt")):
        (tmp_path / f"{number}.slt").write_text(block.body, encoding="utf-8")
    result = CliRunner().invoke(app, ["test", str(tmp_path), "--mode", "all"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_give_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that need no Spark. A page is one session: its files and folders stay from block to block."""
    for block in blocks_of(ROOT / page):
        write_file(block, tmp_path)
        if block not in chosen("console"):
            continue
        folder = tmp_path
        if source := block.directives.get("dir"):
            folder = tmp_path / source
            shutil.copytree(ROOT / source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("state", "out"))
        monkeypatch.chdir(folder)
        for command, shown in commands(block.body):
            output = run(command)
            if os.environ.get("WINDOWPANE_COMPLETE") and "…" not in shown and shown.strip():
                text = (ROOT / page).read_text(encoding="utf-8")
                text = text.replace(f"$ {command}\n{shown}", f"$ {command}\n{_without_padding(output)}")
                (ROOT / page).write_text(text, encoding="utf-8")
            else:
                compare(shown, output, f"{block}: {command}")


def _without_padding(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.rstrip("\n").split("\n"))


def commands(body: str) -> list[tuple[str, str]]:
    """Each command of a console block, with the output that is shown below it."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [(command.strip(), shown) for command, _, shown in (part.partition("\n") for part in parts)]


def run(command: str) -> str:
    """Runs a windowpane command in this process, which is much faster than a new one."""
    piped, _, command = command.rpartition(" | ")
    words = shlex.split(command, comments=True)
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    assert words[0] == "windowpane", f"only windowpane commands run here, not {words[0]}"
    stdin = " ".join(shlex.split(piped)[1:]) if piped else None
    result = CliRunner().invoke(app, words[1:], input=stdin, env={"COLUMNS": "100"})
    return result.output


def compare(shown: str, output: str, what: str) -> None:
    """Shown lines are those of the output; `…` alone stands for any lines, at the end of a line for its rest."""
    if not shown.strip():
        return
    pattern = "".join(map(_pattern, sorted_rows(shown.rstrip("\n").split("\n"))))
    output = "\n".join(sorted_rows(output.rstrip("\n").split("\n")))
    assert re.fullmatch(pattern, output.rstrip("\n") + "\n"), (
        f"{what} gives\n{output}\nWINDOWPANE_COMPLETE=1 pytest tests/docs rewrites the page"
    )


def sorted_rows(lines: list[str]) -> list[str]:
    """The rows that one window emits have no order, so those of a printed table are compared as a set."""
    return [
        line for _, group in groupby(lines, lambda line: line.startswith("│ 20")) for line in sort_rows(list(group))
    ]


def sort_rows(group: list[str]) -> list[str]:
    return sorted(group) if group[0].startswith("│ 20") else group


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    return re.escape(line.rstrip("…").rstrip()) + (".*" if line.endswith("…") else " *") + "\n"
