"""Commands about a pipeline that runs or has run. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import AsJson, Debug, PipelineFile, Timeout, TransformName
from windowpane.cli.report import reporting


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


def status(pipeline: PipelineFile = None, *, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show whether a pipeline is running and how far it has come."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.status import show_status  # noqa: PLC0415

        out.write(show_status(pipeline, as_json=as_json))


def drain(pipeline: PipelineFile = None, *, timeout: Timeout = 120.0, debug: Debug = False) -> None:
    """Ask a running pipeline to process the available input, emit every open window and finish."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "drain", timeout))


def stop(pipeline: PipelineFile = None, *, timeout: Timeout = 120.0, debug: Debug = False) -> None:
    """Ask a running pipeline to stop; windowpane run resumes where it stopped."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "stop", timeout))


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


def rescale(
    pipeline: PipelineFile = None,
    *,
    shards: Annotated[int, typer.Option("--shards", metavar="N", min=1, help="How many shards the state gets.")],
    transform: TransformName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Divide the state, and keep it as it is.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Divide the state of a stopped pipeline among another number of shards. Results stay the same."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.rescale import rescale  # noqa: PLC0415

        out.write(rescale(pipeline, shards, transform, dry_run=dry_run, as_json=as_json))


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
