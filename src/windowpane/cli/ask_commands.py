"""Commands that answer questions about a pipeline from its checkpoint. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windowpane.cli.options import AnswerTimeout, AsJson, CheckpointPlace, Debug, PipelineFile, TransformName
from windowpane.cli.report import reporting


def why(
    pipeline: PipelineFile = None,
    *,
    row: Annotated[
        str | None, typer.Option("--row", metavar="JSON", help="What would become of this row of a stream now.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", help="With --row: its stream, if there are several.")
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(
            "--late", metavar="RECORD", help="Why a row came late: a side record as JSON, a file, or SINK:BATCH:LINE."
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="START", help="Why a window has not come out: 12:00, or an instant."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="KEYS", help="Why a group is missing: auction=7 or JSON. Alone, or with --window."
        ),
    ] = None,
    transform: TransformName = None,
    checkpoint: CheckpointPlace = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Explain the fate of a row, a late row, a window or a group. Reads the checkpoint, and needs no Spark."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.why import WhyOptions, answer  # noqa: PLC0415

        options = WhyOptions(transform, row, stream, late, window, group, checkpoint)
        out.write(answer(pipeline, options, as_json=as_json))


def tune(
    pipeline: PipelineFile = None,
    *,
    sample: Annotated[
        list[str] | None,
        typer.Option("--sample", metavar="FILE", help="Learn from files or folders, not the ledger. May be repeated."),
    ] = None,
    from_ledger: Annotated[
        bool, typer.Option("--from-ledger", help="Learn from the ledger of the pipeline. The default.")
    ] = False,
    loss: Annotated[
        str, typer.Option("--loss", metavar="SHARE", help="The share of late rows to accept: 0.1%, 0.001.")
    ] = "0.1%",
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", min=1, help="Only the last N micro-batches of the ledger.")
    ] = None,
    batch_rows: Annotated[
        int, typer.Option("--batch-rows", metavar="N", min=1, help="With --sample: rows of a micro-batch.")
    ] = 1000,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", help="With --sample: its stream, if there are several.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Draw the share of late rows over the lag.")
    ] = None,
    transform: TransformName = None,
    checkpoint: CheckpointPlace = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what other lags, lateness, gaps, batch sizes and shards would do. Needs no Spark."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.tune import TuneArguments, answer  # noqa: PLC0415

        given = TuneArguments(
            tuple(sample or ()), from_ledger, stream, batch_rows, loss, last, picture, transform, checkpoint
        )
        out.write(answer(pipeline, given, as_json=as_json))


def audit(
    pipeline: PipelineFile = None,
    *,
    recompute: Annotated[
        int,
        typer.Option(
            "--recompute", metavar="N", min=0, help="Compute N closed windows again from the source, on Spark."
        ),
    ] = 0,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page, too.")
    ] = None,
    transform: TransformName = None,
    checkpoint: CheckpointPlace = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Prove from ledger and sinks that no row was lost, doubled or changed. Ends with code 1 if something is wrong."""
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.audit import AuditOptions, answer  # noqa: PLC0415

        text, passed = answer(pipeline, AuditOptions(transform, recompute, html, checkpoint), as_json=as_json)
        out.write(text)
        if not passed:
            raise typer.Exit(1)


SideSink = Annotated[str, typer.Option("--from", metavar="SINK", help="The side output from which rows are taken.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only these rows: kind, reason, event_time, window_start, event …"),
]
StreamName = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="The stream of the rows, if there are several.")
]


def repair(
    pipeline: PipelineFile = None,
    *,
    source: SideSink,
    where: Where = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show windows before and after, and change nothing.")
    ] = False,
    stream: StreamName = None,
    transform: TransformName = None,
    checkpoint: CheckpointPlace = None,
    timeout: AnswerTimeout = 600.0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fold late, evicted and once unreadable rows into the closed windows that they missed.

    If the pipeline runs, it does so between two micro-batches; else this command does.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.repair import RepairArguments, answer  # noqa: PLC0415

        given = RepairArguments(source, where, dry_run, transform, timeout, checkpoint, stream)
        out.write(answer(pipeline, given, as_json=as_json))


def replay(
    pipeline: PipelineFile = None,
    *,
    source: SideSink,
    where: Where = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which rows can be replayed, and why not.")] = False,
    stream: StreamName = None,
    transform: TransformName = None,
    checkpoint: CheckpointPlace = None,
    timeout: AnswerTimeout = 600.0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read side rows once more whose windows are still open, after their schema or data was corrected.

    The next micro-batch takes them, whether the pipeline runs now or is started later.
    """
    with reporting(as_json=as_json, debug=debug) as out:
        from windowpane.cli.repair import RepairArguments, replay  # noqa: PLC0415

        given = RepairArguments(source, where, dry_run, transform, timeout, checkpoint, stream)
        out.write(replay(pipeline, given, as_json=as_json))
