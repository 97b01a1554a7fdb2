"""Commands about a pipeline that runs or has run. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import (
    UI_PORT,
    AsJson,
    CheckpointPlace,
    Debug,
    PipelineFile,
    Timeout,
    TransformName,
    UiToken,
)
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
    ui_port: Annotated[
        int | None,
        typer.Option(
            "--ui",
            metavar="[PORT]",
            min=0,
            max=65535,
            help="Show the pipeline in a browser, at port 8484 of this machine or another one; 0: a free port.",
        ),
    ] = None,
    ui_token: UiToken = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SAVEPOINT",
            help="Start a new checkpoint from a savepoint: NAME, or FOLDER_OR_ADDRESS/NAME.",
        ),
    ] = None,
    checkpoint: CheckpointPlace = None,
    evolve: Annotated[
        bool,
        typer.Option("--evolve", help="Agree to a changed query: see windowpane diff for what it does to the state."),
    ] = False,
    drain_removed: Annotated[
        bool,
        typer.Option(
            "--drain-removed", help="Let transforms that were removed from a job emit their open windows, then end."
        ),
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Print where the time went, at the end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line per micro-batch, and a final one.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline on Spark. Ctrl-C stops it; the next run resumes where it stopped."""
    with reporting(as_json=as_json, debug=debug, as_lines=True):
        from windowpane.cli.run import RunOptions, run_pipeline  # noqa: PLC0415

        options = RunOptions(
            transform, trigger, metrics_port, drain=drain, as_json=as_json, profile=profile, origin=origin,
            checkpoint=checkpoint, evolve=evolve, drain_removed=drain_removed, ui_port=ui_port, ui_token=ui_token,
        )  # fmt: skip
        run_pipeline(pipeline, options)


def diff(
    pipeline: PipelineFile = None, *, transform: TransformName = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show what a start would do to the state of each transform, if its query has changed. Starts nothing."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.changes import diff  # noqa: PLC0415

        out.write(diff(pipeline, transform, as_json=as_json))


def history(
    pipeline: PipelineFile = None, *, transform: TransformName = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the queries that each checkpoint has had, since when, and what became of the state."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.changes import history  # noqa: PLC0415

        out.write(history(pipeline, transform, as_json=as_json))


def status(
    pipeline: PipelineFile = None, *, checkpoint: CheckpointPlace = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show whether a pipeline is running and how far it has come."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.status import show_status  # noqa: PLC0415

        out.write(show_status(pipeline, checkpoint, as_json=as_json))


def ui(
    pipeline: PipelineFile = None,
    *,
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: a free port.")] = int(
        UI_PORT
    ),
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Another one than of this machine needs --ui-token.")
    ] = "127.0.0.1",
    ui_token: UiToken = None,
    checkpoint: CheckpointPlace = None,
    debug: Debug = False,
) -> None:
    """Show a pipeline in a browser, whether it runs here, elsewhere, or not at all. Reads its checkpoint only."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.ui import serve_page  # noqa: PLC0415

        serve_page(pipeline, checkpoint, host=host, port=port, token=ui_token, say=out.write)


def drain(
    pipeline: PipelineFile = None, *, checkpoint: CheckpointPlace = None, timeout: Timeout = 120.0, debug: Debug = False
) -> None:
    """Ask a running pipeline to process the available input, emit every open window and finish."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "drain", timeout, checkpoint))


def stop(
    pipeline: PipelineFile = None, *, checkpoint: CheckpointPlace = None, timeout: Timeout = 120.0, debug: Debug = False
) -> None:
    """Ask a running pipeline to stop; windowpane run resumes where it stopped."""
    with reporting(as_json=False, debug=debug) as out:
        from windowpane.cli.status import send_request  # noqa: PLC0415

        out.write(send_request(pipeline, "stop", timeout, checkpoint))


def reset(
    pipeline: PipelineFile = None,
    *,
    transform: TransformName = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="SAVEPOINT", help="Go back to a savepoint instead of the beginning."),
    ] = None,
    keep_results: Annotated[
        bool, typer.Option("--keep-results", help="With --to: leave in the sinks what came after the savepoint.")
    ] = False,
    checkpoint: CheckpointPlace = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Remove a pipeline's checkpoint, so that the next run begins anew. Shows what it removes, and asks first.

    With --to, put it back to a savepoint, and take back from the sinks what came after it, where delivery is exactly
    once.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.reset import ResetOptions, confirmed, plan_reset  # noqa: PLC0415

        planned = plan_reset(pipeline, ResetOptions(transform, to, checkpoint, keep_results=keep_results))
        if not (yes or confirmed(planned, as_json=as_json)):
            out.write("Nothing was removed.")
            return
        out.write(planned.carry_out(as_json=as_json))


def savepoint(
    arguments: Annotated[list[str], typer.Argument(metavar="[PIPELINE.TOML] NAME", help="Default: the nearest file.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the savepoint of this name.")] = False,
    checkpoint: CheckpointPlace = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for a running micro-batch.")
    ] = 120.0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Keep offsets, state and ledger of a pipeline under a name, whether it runs or not.

    windowpane run --from NAME starts another checkpoint from there, windowpane reset --to NAME goes back.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli import savepoint as commands  # noqa: PLC0415

        pipeline, name = commands.split_arguments(arguments)
        if delete:
            out.write(commands.delete(pipeline, name, checkpoint, as_json=as_json))
        else:
            out.write(commands.take(pipeline, name, checkpoint, timeout, as_json=as_json))


def savepoints(
    pipeline: PipelineFile = None,
    *,
    checkpoint: CheckpointPlace = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the savepoints of a pipeline, with the micro-batch and the time of each job."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.savepoint import show  # noqa: PLC0415

        out.write(show(pipeline, checkpoint, as_json=as_json))


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


def compact(
    pipeline: PipelineFile = None,
    *,
    transform: TransformName = None,
    target: Annotated[
        int, typer.Option("--target-mb", metavar="N", min=1, help="How large a file may become, in megabytes.")
    ] = 128,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make few large files of the many small ones in the file sinks of a stopped pipeline. Rows stay the same."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.compact import compact_sinks  # noqa: PLC0415

        out.write(compact_sinks(pipeline, transform, target, as_json=as_json))


def backfill(
    pipeline: PipelineFile = None,
    *,
    since: Annotated[
        str,
        typer.Option("--from", metavar="T", help="Windows that start at T or later: 2026-01-31, an instant, or -1d."),
    ],
    until: Annotated[
        str, typer.Option("--to", metavar="T", help="Windows that start before T; now is an instant too.")
    ],
    transform: TransformName = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="SINK", help="A sink of the file, instead of the transform's own.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; compare with what the stream has emitted. Exit code 1: it differs."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read and written, without starting Spark.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the queries over old input as a batch: what the stream would have given with complete input."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.backfill import BackfillOptions, backfill  # noqa: PLC0415

        options = BackfillOptions(since, until, transform, into, check=check, dry_run=dry_run, as_json=as_json)
        text, same = backfill(pipeline, options)
        out.write(text)
        if not same:
            raise typer.Exit(1)


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
