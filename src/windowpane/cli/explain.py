"""`windowpane explain`: the plans of a pipeline, or of a query with streams given on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from windowpane.cli.figures import output_width
from windowpane.config import (
    PipelineConfig,
    Stream,
    find_pipeline,
    load_pipeline,
    parse_options,
    parse_stream,
    parse_table,
)
from windowpane.errors import ConfigError, SqlError, nearest
from windowpane.plan.build import Plan, plan_query
from windowpane.plan.explain import SECTIONS, WIDTH, Section, render, render_json
from windowpane.plan.explain import explain as explain_plan
from windowpane.plan.jobs import PlannedJob, plan_jobs
from windowpane.plan.pipeline import plan_transforms, stream_catalog
from windowpane.plan.pipeline_graph import PipelineGraph
from windowpane.sql import bind

Form: TypeAlias = Literal["tree", "dot", "mermaid"]
FORMS: tuple[Form, ...] = ("tree", "dot", "mermaid")


@dataclass(frozen=True)
class Query:
    """A query given on the command line, with what it reads."""

    sql: str | None
    file: Path | None
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    eventtimes: tuple[str, ...]

    @property
    def is_given(self) -> bool:
        return any((self.sql is not None, self.file is not None, self.streams, self.tables, self.eventtimes))


def sections(*, logical: bool, optimized: bool, physical: bool) -> tuple[Section, ...]:
    """The plans that were asked for; all when none was."""
    asked = {"logical": logical, "optimized": optimized, "physical": physical}
    return tuple(section for section in SECTIONS if asked[section]) or SECTIONS


def explain_pipeline(path: Path | None, transform: str | None, chosen: tuple[Section, ...], *, as_json: bool) -> str:
    config = load_pipeline(path or find_pipeline())
    plans = plan_transforms(config, transform)
    jobs = _jobs(config, plans) if transform is None else {}
    structures = [explain_plan(plan, chosen, jobs.get(plan.transform)) for plan in plans]
    graph = PipelineGraph.of(config, plans)
    if as_json:
        return config.redact(render_json({"file": config.file, "plans": structures, "graph": graph.as_dict()}))
    blocks = [f"Graph\n{graph.tree()}"] if graph.is_nested else []
    return config.redact("\n\n".join([*blocks, *(render(structure, _width()) for structure in structures)]))


def _jobs(config: PipelineConfig, plans: Sequence[Plan]) -> dict[str, PlannedJob]:
    """The jobs of transforms that run, if a pipeline has several transforms."""
    run = [plan for plan in plans if config.transforms[plan.transform].sinks]
    return {plan.transform: job for job in plan_jobs(config, run) for plan in job.plans if len(run) > 1}


def form(*, graph: bool, dot: bool, mermaid: bool) -> Form | None:
    """How to draw the graph, if that was asked for."""
    asked = [name for name, given in zip(FORMS, (graph, dot, mermaid), strict=True) if given]
    if len(asked) > 1:
        raise _usage("--graph, --dot and --mermaid cannot be combined", "give one of them")
    return asked[0] if asked else None


def draw_pipeline(query: Query, path: Path | None, transform: str | None, form: Form, *, as_json: bool) -> str:
    """The graph of streams, transforms and sinks, without the plans."""
    if query.is_given or as_json:
        what = "a query on the command line" if query.is_given else "--json"
        hint = "--json has the graph of a pipeline under `graph`" if as_json else "draw the graph of a pipeline"
        raise _usage(f"--graph, --dot and --mermaid cannot be combined with {what}", hint)
    config = load_pipeline(path or find_pipeline())
    graph = PipelineGraph.of(config, plan_transforms(config, transform))
    return config.redact({"tree": graph.tree, "dot": graph.dot, "mermaid": graph.mermaid}[form]())


def explain_query(
    query: Query, pipeline: Path | None, transform: str | None, chosen: tuple[Section, ...], *, as_json: bool
) -> str:
    if pipeline is not None or transform is not None:
        what = "--transform" if pipeline is None else f"`{pipeline}`"
        raise _usage(f"{what} and a query on the command line cannot be combined", "explain one of them")
    text, file = _read_sql(query)
    try:
        structure = _explain_text(query, text, chosen)
    except SqlError as error:
        error.file = file
        raise
    return render_json({"file": file, "plans": [structure]}) if as_json else render(structure, _width())


def _explain_text(query: Query, text: str, chosen: tuple[Section, ...]) -> dict[str, object]:
    streams = _streams(query)
    tables = {name: parse_table(name, {"schema": ddl}) for name, ddl in _named(query.tables, "--table")}
    options = parse_options({"eventtime": {"enabled": True}} if query.eventtimes else {})
    bound = bind(text, stream_catalog(streams, tables))
    return explain_plan(plan_query(bound, streams, options), chosen)


def _read_sql(query: Query) -> tuple[str, str | None]:
    if query.sql is not None and query.file is not None:
        raise _usage("--sql and --sql-file cannot be combined", "give one of them")
    if query.sql == "-" or str(query.file) == "-":
        return sys.stdin.read(), None
    if query.sql is not None:
        return query.sql, None
    if query.file is None:
        raise _usage("there is no query", 'add `--sql "SELECT …"`, `--sql -` (stdin) or `--sql-file FILE`')
    try:
        return query.file.read_text(encoding="utf-8"), str(query.file)
    except UnicodeDecodeError:
        raise ConfigError("FILE_NOT_UTF8", f"`{query.file}` is not UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise ConfigError("FILE_UNREADABLE", f"`{query.file}` cannot be read: {error.strerror}") from None


def _streams(query: Query) -> dict[str, Stream]:
    schemas = dict(_named(query.streams, "--stream"))
    times: dict[str, dict[str, str]] = {}
    for name, declared in _named(query.eventtimes, "--eventtime"):
        if name not in schemas:
            message = f"--eventtime names the stream `{name}`, which is not given"
            raise _usage(message, f"streams: {nearest(name, schemas)}")
        column, _, kind = declared.rpartition(":")
        times[name] = {"column": column, "type": kind} if column else {"column": kind}
    return {
        name: parse_stream(name, {"schema": ddl, **({"eventtime": times[name]} if name in times else {})})
        for name, ddl in schemas.items()
    }


def _named(values: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """`name=rest` of each value of an option."""
    pairs = [value.partition("=") for value in values]
    for value, (name, equals, rest) in zip(values, pairs, strict=True):
        if not (name.strip() and equals and rest.strip()):
            raise _usage(
                f"{option} `{value}` is not NAME=…", 'write it like --stream "bids=auction BIGINT, ts TIMESTAMP"'
            )
    return [(name.strip(), rest.strip()) for name, _, rest in pairs]


def _usage(message: str, hint: str) -> ConfigError:
    return ConfigError("BAD_OPTION", message, hint)


def _width() -> int:
    """A plan is laid out for reading, also in a pipe: one node on one line would be thousands of characters wide."""
    return output_width() if sys.stdout.isatty() else WIDTH
