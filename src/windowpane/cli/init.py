"""`windowpane init`: an example, or a pipeline for a source that is there."""

from __future__ import annotations

import json
from pathlib import Path

from windowpane.config import write_example
from windowpane.preview.new_pipeline import NewPipeline, write_pipeline
from windowpane.time import format_duration


def init_example(folder: Path, *, as_json: bool) -> str:
    """The text to print after the example is written."""
    written = [str(path) for path in write_example(folder)]
    if as_json:
        return json.dumps({"written": written}, indent=2, ensure_ascii=False)
    steps = [f"next: windowpane check {written[0]}", f"then: windowpane run {written[0]} --drain"]
    return "\n".join([*(f"wrote {path}" for path in written), *steps])


def init_from(source: str, folder: Path, rows: int, *, as_json: bool) -> str:
    """The text to print after a pipeline for the source is written."""
    path, made = write_pipeline(source, folder, rows)
    if as_json:
        return json.dumps({"written": [str(path)], **made.as_dict()}, indent=2, ensure_ascii=False)
    steps = [f"next: windowpane preview {path}", f"then: windowpane run {path} --drain"]
    return "\n".join([*_found(made), f"wrote {path}", *steps])


def _found(made: NewPipeline) -> list[str]:
    time = made.eventtime
    lines = [f"stream      {made.source.name}: {made.sampled:,} rows of {made.source.format} sampled"]
    if time is None:
        lines.append("event time  none found, so windows use processing time")
    else:
        order = (
            f"{time.out_of_order:,} rows out of order, by {format_duration(time.most_us)} at most"
            if time.out_of_order
            else "all rows in order"
        )
        lines.append(f"event time  {time.column} as {time.type}; {order}")
        lines.append(f"lag         {format_duration(time.lag_us)}")
    return [*lines, *(f"note        {note}" for note in made.notes)]
