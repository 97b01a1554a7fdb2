"""The commands and their options. What they do stands in modules of their own, imported when a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from windowpane import __version__
from windowpane.cli.report import reporting
from windowpane.connectors.tables import UNBOUNDED

app = typer.Typer(
    name="windowpane",
    help="Windowed streaming SQL for Spark in which every row is accounted for.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 200,
        "terminal_width": None if sys.stdout.isatty() else UNBOUNDED,
    },
)

PipelineFile = Annotated[
    Path | None,
    typer.Argument(metavar="PIPELINE.TOML", help="Default: pipeline.toml in this folder or the nearest one above."),
]
AsJson = Annotated[bool, typer.Option("--json", help='Print JSON, errors too: {"error": {…}}.')]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when windowpane itself fails.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for the pipeline to end.")
]
TransformName = Annotated[str | None, typer.Option("--transform", metavar="NAME", help="Only this transform.")]


def _examples(*lines: str) -> str:
    """Lines that a narrow terminal does not rewrap, so that they can be copied."""
    return "\b\n" + "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def _print_version(asked: bool) -> None:  # noqa: FBT001  the signature of a typer callback
    if asked:
        typer.echo(f"windowpane {__version__}")
        raise typer.Exit


@app.callback()
def windowpane(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(
    epilog=_examples(
        "windowpane check",
        "windowpane check jobs/pipeline.toml --json",
    ),
)
def check(
    pipeline: PipelineFile = None, *, transform: TransformName = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Describe what a pipeline will do, or what is wrong with it, without starting it."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.check import check_pipeline  # noqa: PLC0415  the planner is loaded when it is needed

        out.write(check_pipeline(pipeline, transform, as_json=as_json))


@app.command(
    epilog=_examples(
        "windowpane explain",
        "windowpane explain jobs/pipeline.toml --physical --transform hot",
        'windowpane explain --stream "bids=auction BIGINT, ts TIMESTAMP" \\',
        "    --sql \"SELECT auction, count(*) FROM bids GROUP BY window(ts, '10 seconds'), auction\"",
        'windowpane explain --stream "bids=ts BIGINT" --eventtime bids=ts:unixtimestamp_ms --sql - < query.sql',
    ),
)
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
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the plans of a pipeline or a query: all three, unless you select some."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.explain import Query, explain_pipeline, explain_query, sections  # noqa: PLC0415

        chosen = sections(logical=logical, optimized=optimized, physical=physical)
        query = Query(sql, sql_file, tuple(stream or ()), tuple(table or ()), tuple(eventtime or ()))
        if query.is_given:
            out.write(explain_query(query, pipeline, transform, chosen, as_json=as_json))
        else:
            out.write(explain_pipeline(pipeline, transform, chosen, as_json=as_json))


@app.command(
    epilog=_examples(
        "windowpane run",
        "windowpane run jobs/pipeline.toml --drain",
        "windowpane run --trigger 10s --json > progress.jsonl",
        "windowpane run --drain --profile",
    ),
)
def run(
    pipeline: PipelineFile = None,
    *,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Process the available input, emit every open window and finish the checkpoint."),
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="WHEN", help="as_fast_as_possible, available_now, or an interval: 10s."),
    ] = None,
    transform: TransformName = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", metavar="PORT", min=0, max=65535, help="Serve Prometheus metrics; 0: a free port."
        ),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Print where the time went, at the end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line per micro-batch, and a final one.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline on Spark. Ctrl-C stops it; the next run resumes where it stopped."""
    with reporting(as_json=as_json, debug=debug, as_lines=True):
        from windowpane.cli.run import RunOptions, run_pipeline  # noqa: PLC0415

        options = RunOptions(transform, trigger, metrics_port, drain=drain, as_json=as_json, profile=profile)
        run_pipeline(pipeline, options)


@app.command(
    epilog=_examples(
        "windowpane status",
        "windowpane status jobs/pipeline.toml --json",
    )
)
def status(pipeline: PipelineFile = None, *, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show whether a pipeline is running and how far it has come."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.status import show_status  # noqa: PLC0415

        out.write(show_status(pipeline, as_json=as_json))


@app.command(
    epilog=_examples(
        "windowpane drain jobs/pipeline.toml --timeout 600",
    )
)
def drain(pipeline: PipelineFile = None, *, timeout: Timeout = 120.0, debug: Debug = False) -> None:
    """Ask a running pipeline to process the available input, emit every open window and finish."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "drain", timeout))


@app.command(
    epilog=_examples(
        "windowpane stop jobs/pipeline.toml",
    )
)
def stop(pipeline: PipelineFile = None, *, timeout: Timeout = 120.0, debug: Debug = False) -> None:
    """Ask a running pipeline to stop; windowpane run resumes where it stopped."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "stop", timeout))


@app.command(
    epilog=_examples(
        "windowpane reset",
        "windowpane reset jobs/pipeline.toml --transform hot --yes",
    ),
)
def reset(
    pipeline: PipelineFile = None,
    *,
    transform: TransformName = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Remove a pipeline's checkpoint, so that the next run begins anew. Shows what it removes, and asks first."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.reset import confirmed, plan_reset  # noqa: PLC0415

        planned = plan_reset(pipeline, transform)
        if not (yes or confirmed(planned, as_json=as_json)):
            out.write("Nothing was removed.")
            return
        out.write(planned.carry_out(as_json=as_json))


@app.command(
    epilog=_examples(
        "windowpane inspect",
        "windowpane inspect --ledger 20",
        "windowpane inspect state/hot --json",
    ),
)
def inspect(
    pipeline: Annotated[
        Path | None,
        typer.Argument(metavar="FILE|CHECKPOINT", help="Default: the nearest pipeline.toml."),
    ] = None,
    *,
    ledger: Annotated[
        int | None, typer.Option("--ledger", metavar="N", min=1, help="List the last N micro-batches.")
    ] = None,
    state: Annotated[
        bool, typer.Option("--state/--no-state", help="Read the contents of the state, which starts Spark.")
    ] = True,
    transform: TransformName = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the contents of a checkpoint: plan, watermark per source partition, open windows with groups and bytes."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.inspect import InspectOptions, inspect  # noqa: PLC0415

        out.write(inspect(pipeline, InspectOptions(transform, ledger, state=state, as_json=as_json)))


@app.command(
    epilog=_examples(
        "windowpane init hot && cd hot && windowpane check",
    )
)
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it; created if it does not exist.")] = Path(),
    *,
    debug: Debug = False,
) -> None:
    """Write a commented, working pipeline.toml with sample data. Existing files are never overwritten."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.config import write_example  # noqa: PLC0415

        written = [str(path) for path in write_example(folder)]
        steps = [f"next: windowpane check {written[0]}", f"then: windowpane run {written[0]} --drain"]
        out.write("\n".join([*(f"wrote {path}" for path in written), *steps]))


@app.command(
    epilog=_examples(
        "windowpane schema data/bids",
        "windowpane schema > windowpane.schema.json",
    ),
)
def schema(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE_OR_FOLDER", help="Sample files: JSON, CSV, parquet or Arrow."),
    ] = None,
    *,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many rows of each file to read.")] = 1000,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print the schema of sample files, to paste into pipeline.toml, with the values that do not fit.

    Without files: print the JSON schema of pipeline.toml, for editors.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.schema import print_schema  # noqa: PLC0415

        out.write(print_schema(files or (), rows, as_json=as_json))


@app.command(
    "test",
    epilog=_examples(
        "windowpane test tests/",
        "windowpane test hot_items.slt --mode all",
        "windowpane test hot_items.slt --spark",
        "windowpane test hot_items.slt --complete && git diff hot_items.slt",
    ),
)
def run_golden_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE_OR_FOLDER", help="Golden files, or folders with *.slt files.")
    ],
    *,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="as-written, single-rows, restarts, or all of them.")
    ] = "as-written",
    complete: Annotated[
        bool, typer.Option("--complete", help="Write the actual output into the files, for review.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on a local Spark, for expressions that only Spark evaluates.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run queries on rows from golden files, without Spark unless --spark is given, and compare with the files."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.goldens import complete_goldens, run_goldens, run_goldens_on_spark  # noqa: PLC0415

        if spark:
            report, code = run_goldens_on_spark(files, mode, complete=complete, as_json=as_json)
            out.write(report)
            raise typer.Exit(code)
        if complete:
            out.write(complete_goldens(files, as_json=as_json))
            return
        report, code = run_goldens(files, mode, as_json=as_json)
        out.write(report)
        raise typer.Exit(code)
