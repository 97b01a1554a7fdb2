"""Arguments and options that several commands share."""

from __future__ import annotations

from itertools import pairwise
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
AnswerTimeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for a pipeline that runs.")
]
CheckpointPlace = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="PLACE", help="A folder or an address instead of the file's `checkpoint`."),
]
TransformName = Annotated[str | None, typer.Option("--transform", metavar="NAME", help="Only this transform.")]
UiToken = Annotated[
    str | None,
    typer.Option(
        "--ui-token",
        metavar="TOKEN",
        envvar="WINDOWPANE_UI_TOKEN",
        help="Who opens the page needs it; allows --host of other machines, and to stop and drain from the page.",
    ),
]
UI_PORT = "8484"


def with_ui_port(args: list[str]) -> list[str]:
    """Arguments in which each `--ui` has a port.

    >>> with_ui_port(["--ui", "--drain"]), with_ui_port(["--ui", "9000"]), with_ui_port(["--ui", "hot.toml"])
    (['--ui', '8484', '--drain'], ['--ui', '9000'], ['--ui', '8484', 'hot.toml'])
    >>> with_ui_port([])
    []
    """
    found = list[str]()
    for arg, following in pairwise([*args, ""]):
        found += [arg, UI_PORT] if arg == "--ui" and not following.lstrip("-").isdigit() else [arg]
    return found
