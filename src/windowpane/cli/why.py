"""`windowpane why`: the answers of `runtime/asking` as text or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windowpane.cli.figures import output_width
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import Answer, Asked, asked_transforms
from windowpane.runtime.asking.group import parse_group, why_group
from windowpane.runtime.asking.late import why_late
from windowpane.runtime.asking.row import why_row
from windowpane.runtime.asking.window import why_window


@dataclass(frozen=True)
class WhyOptions:
    """What is asked. One of `row`, `late`, `window`, `group`; `group` may come with `window`."""

    transform: str | None = None
    row: str | None = None
    stream: str | None = None
    late: str | None = None
    window: str | None = None
    group: str | None = None
    checkpoint: str | None = None


def answer(path: Path | None, options: WhyOptions, *, as_json: bool) -> str:
    """The text to print."""
    ask = _question(options)
    transforms = list(asked_transforms(path, options.transform, options.checkpoint))
    answers, refused = list[Answer](), list[ConfigError]()
    for asked in transforms:
        try:
            answers.append(ask(asked))
        except ConfigError as error:
            if len(transforms) == 1:
                raise
            refused.append(error)
    if not answers:
        raise refused[0]
    if as_json:
        return json.dumps([answer.as_dict() for answer in answers], indent=2, ensure_ascii=False, default=str)
    return "\n\n".join(_text(answer) for answer in answers)


def _question(options: WhyOptions) -> Callable[[Asked], Answer]:
    given = [name for name in ("row", "late", "window") if getattr(options, name) is not None]
    if len(given) > 1 or (options.group is not None and given not in ([], ["window"])):
        named = ", ".join(f"--{name}" for name in [*given, *(["group"] if options.group is not None else [])])
        raise ConfigError("TOO_MANY_OPTIONS", f"{named} are different questions", "ask one: see windowpane why --help")
    if options.stream is not None and options.row is None:
        raise ConfigError("TOO_MANY_OPTIONS", "--stream goes with --row", "see windowpane why --help")
    row, late, window, group = options.row, options.late, options.window, options.group
    if row is not None:
        return lambda asked: why_row(asked, row, options.stream)
    if late is not None:
        return lambda asked: why_late(asked, late)
    if window is not None:
        return lambda asked: why_window(asked, window, None if group is None else parse_group(asked, group))
    if group is not None:
        return lambda asked: why_group(asked, parse_group(asked, group))
    hint = "--row '{…}', --late RECORD, --window 12:00 or --group auction=7"
    raise ConfigError("MISSING_OPTION", "windowpane why needs a question", hint)


def _text(answer: Answer) -> str:
    lines = [textwrap.fill(line, min(output_width(), 80), initial_indent="  ", subsequent_indent="    ",
                           break_long_words=False) for line in answer.lines]  # fmt: skip
    return "\n".join([answer.about, *lines])
