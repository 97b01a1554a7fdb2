"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineFile = Annotated[
    Path | None,
    typer.Argument(metavar="PIPELINE.TOML", help="Default: pipeline.toml in this folder or the nearest one above."),
]
AsJson = Annotated[bool, typer.Option("--json", help='Print JSON, errors too: {"error": {…}}.')]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when windowpane itself fails.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for the pipeline to end.")
]
CheckpointPlace = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="PLACE", help="A folder or an address instead of the file's `checkpoint`."),
]
TransformName = Annotated[str | None, typer.Option("--transform", metavar="NAME", help="Only this transform.")]
