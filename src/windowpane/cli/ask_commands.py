"""Commands that answer questions about a pipeline from its checkpoint. Each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from windowpane.cli.options import AsJson, CheckpointPlace, Debug, PipelineFile, TransformName
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
