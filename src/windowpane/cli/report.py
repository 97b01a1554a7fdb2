"""How a command ends: output on stdout, a user's mistake as text on stderr, a bug of ours with a way to report it.

Exit codes: 2 configuration or SQL, 1 while running, 70 a bug of ours.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from windowpane.errors import InternalError, WindowpaneError

BUG = 70
_REPORT = "This is a bug in windowpane, please report it with the command that you ran."
_BOLD_RED, _PLAIN = "\x1b[1;31m", "\x1b[0m"


class Output:
    """Standard output, as UTF-8 whatever the terminal's locale says."""

    def write(self, text: str) -> None:
        data = (text + "\n").encode("utf-8", "surrogateescape")
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(text + "\n")
        else:
            buffer.write(data)
            buffer.flush()


@contextmanager
def reporting(*, as_json: bool, debug: bool, as_lines: bool = False) -> Iterator[Output]:
    """Turns whatever the command raises into a message and an exit code.

    `as_lines`: JSON of one line, for a command whose output is read line by line.
    """
    out = Output()
    try:
        yield out
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    except WindowpaneError as error:
        if isinstance(error, InternalError) and debug:
            traceback.print_exc()
        _print_error(error, out, as_json=as_json, as_lines=as_lines)
        raise typer.Exit(error.exit_code) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  the last line of defence: no traceback unless asked for
        if debug:
            traceback.print_exc()
        ours = InternalError("INTERNAL", f"{type(error).__name__}: {error}", _REPORT + _debug_hint(debug=debug))
        _print_error(ours, out, as_json=as_json, as_lines=as_lines)
        raise typer.Exit(BUG) from None


def _debug_hint(*, debug: bool) -> str:
    return "" if debug else " --debug shows where it happened."


def _print_error(error: WindowpaneError, out: Output, *, as_json: bool, as_lines: bool) -> None:
    if as_json:
        out.write(json.dumps({"error": error.as_dict()}, indent=None if as_lines else 2, ensure_ascii=False))
        return
    text = error.render()
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        code = f"[{error.code}]"
        text = text.replace(code, f"{_BOLD_RED}{code}{_PLAIN}", 1)
    sys.stderr.write(text + "\n")
