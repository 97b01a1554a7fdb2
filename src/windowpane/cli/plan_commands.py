"""Commands that plan a pipeline or try it on a sample. None starts it, and each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import AsJson, Debug, PipelineFile, TransformName
from windowpane.cli.report import reporting


def check(
    pipeline: PipelineFile = None, *, transform: TransformName = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Describe what a pipeline will do, or what is wrong with it, without starting it."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.check import check_pipeline  # noqa: PLC0415  the planner is loaded when it is needed

        out.write(check_pipeline(pipeline, transform, as_json=as_json))


def explain(
    pipeline: PipelineFile = None,
    *,
    logical: Annotated[bool, typer.Option("--logical", help="The plan as the query states it.")] = False,
    optimized: Annotated[bool, typer.Option("--optimized", help="The same after the optimizer's rules.")] = False,
    physical: Annotated[bool, typer.Option("--physical", help="The plan that is executed.")] = False,
    transform: TransformName = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="TEXT", help="Explain this query instead; `-` reads it from stdin.")
    ] = None,
    sql_file: Annotated[
        Path | None, typer.Option("--sql-file", metavar="FILE", help="Explain the query in this file instead.")
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", metavar="NAME=SCHEMA", help='With --sql: a stream, e.g. "bids=price BIGINT".'),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=SCHEMA", help="With --sql: a static table.")
    ] = None,
    eventtime: Annotated[
        list[str] | None,
        typer.Option("--eventtime", metavar="STREAM=COLUMN:TYPE", help="With --sql: a stream's event time."),
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Streams, transforms and sinks as a tree, without the plans.")
    ] = False,
    dot: Annotated[bool, typer.Option("--dot", help="The same for Graphviz.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="The same for Mermaid.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the plans of a pipeline or a query: all three, unless you select some."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli import explain  # noqa: PLC0415

        drawn = explain.form(graph=graph, dot=dot, mermaid=mermaid)
        chosen = explain.sections(logical=logical, optimized=optimized, physical=physical)
        query = explain.Query(sql, sql_file, tuple(stream or ()), tuple(table or ()), tuple(eventtime or ()))
        if drawn is not None:
            out.write(explain.draw_pipeline(query, pipeline, transform, drawn, as_json=as_json))
        elif query.is_given:
            out.write(explain.explain_query(query, pipeline, transform, chosen, as_json=as_json))
        else:
            out.write(explain.explain_pipeline(pipeline, transform, chosen, as_json=as_json))


def preview(
    pipeline: PipelineFile = None,
    *,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="How many rows of each stream to read.")
    ] = 1000,
    transform: TransformName = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Run again whenever the file, or a SQL file that it names, changes.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the queries over a sample of their real streams, in seconds and without Spark. Nothing is written.

    Shows the results, those of windows that the sample leaves open, and where every row went.
    """
    with reporting(as_json=as_json, debug=debug, as_lines=watch) as out:
        from windowpane.cli.preview import preview_pipeline, watch_pipeline  # noqa: PLC0415

        if watch:
            watch_pipeline(pipeline, transform, rows, out, as_json=as_json)
        else:
            out.write(preview_pipeline(pipeline, transform, rows, as_json=as_json))
