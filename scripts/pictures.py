"""Draws the pictures of the docs as SVG. The harness computes every window, so the pictures cannot be wrong.

`python scripts/pictures.py` writes docs/images/*.svg; `--check` fails if one is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from windowpane.testing import Harness

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
STREAM = {"schema": "ts BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}
WIDTH, LEFT, SECOND, LANE = 760, 50, 16.5, 30
# The pictures bring a background, so that they are readable whatever the page's colours are.
STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #24292f }
.small { font-size: 11.5px; fill: #57606a } .strong { font-weight: 600 }
.page { fill: #ffffff; stroke: #d0d7de } .batch { fill: #f6f8fa }
.axis { stroke: #57606a; stroke-width: 1.2 } .grid { stroke: #d8dee4 }
.window { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.4 }
.grace { fill: #fff8c5; stroke: #bf8700; stroke-dasharray: 4 3 }
.row { fill: #24292f } .open { fill: #1a7f37 } .emit { fill: #8250df }
.outside { fill: #ffffff; stroke: #57606a; stroke-width: 1.5 }
.accepted { fill: #bf8700 } .late { fill: #cf222e }
.mark { stroke: #cf222e; stroke-width: 2; fill: none } .marktext { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9ea7b3 }
.page { fill: #161b22; stroke: #30363d } .batch { fill: #1c2128 }
.axis { stroke: #9ea7b3 } .grid { stroke: #30363d }
.window { fill: #12304f; stroke: #58a6ff } .grace { fill: #3b2e0a; stroke: #d29922 }
.row { fill: #e6edf3 } .open { fill: #3fb950 } .emit { fill: #bc8cff } .outside { fill: #161b22; stroke: #9ea7b3 }
.accepted { fill: #d29922 } .late { fill: #ff7b72 } .mark { stroke: #ff7b72 } .marktext { fill: #ff7b72 }
}
"""


def x(seconds: float) -> float:
    return round(LEFT + seconds * SECOND, 1)


def text(at: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{at:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def dot(at: float, y: float, kind: str = "row") -> str:
    return f'<circle cx="{at:g}" cy="{y:g}" r="5" class="{kind}"/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def box(x1: float, y: float, x2: float, height: float, kind: str = "window") -> str:
    return f'<rect x="{x1:g}" y="{y:g}" width="{x2 - x1:g}" height="{height:g}" rx="5" class="{kind}"/>'


def svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{title}">'
    page = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8" class="page"/>'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{STYLE}</style>", page, *parts, "</svg>", ""])


def time_axis(y: float, ends: int, every: int = 5) -> Iterator[str]:
    yield line(x(-0.8), y, x(ends + 1.5), y, "axis")
    for second in range(0, ends + 1, every):
        yield line(x(second), y - 4, x(second), y + 4, "axis")
        yield text(x(second), y + 20, f"{second} s" if second else "0", "small", "middle")


# ---- one picture for each kind of window ----------------------------------------------------------------------------

ROWS = ((1, 5), (3, 120), (6, 40), (11, 7), (12, 130), (19, 50), (21, 3), (33, 60))
KINDS = {
    "tumbling": ("tumblingwindow('ss', 10)", "Every row is in exactly one window."),
    "hopping": ("hoppingwindow('ss', 10, 5)", "Size 10 s, a new window every 5 s: every row is in two windows."),
    "cumulate": (
        "cumulatewindow('ss', 5, 20)",
        "Windows of one start, each 5 s longer than the one before, up to 20 s.",
    ),
    "session": ("sessionwindow('ss', 5)", "A session ends when no row arrives for 5 s."),
    "sliding": ("slidingwindow('ss', 10)", "Every row looks back 10 s, both ends included."),
    "count": ("countwindow(4, 2)", "Four rows per window, a new window every two rows."),
    "state": ("statewindow(v &gt; 100, v &lt; 10)", "From a row with v &gt; 100 to the next row with v &lt; 10."),
}


def windows_of(window: str) -> list[tuple[float, float, int]]:
    """Start, end and number of rows of every window, as the harness emits them."""
    sql = f"SELECT window_start, window_end, count(*) AS n FROM s GROUP BY {window}"
    harness = Harness(sql, streams={"s": STREAM}, options={"eventtime.enabled": True}, now=0)
    rows = harness.push([{"ts": ts, "v": v} for ts, v in ROWS]).rows + harness.end().rows
    spans = [(row["window_start"].timestamp(), row["window_end"].timestamp(), row["n"]) for row in rows]
    return sorted(spans, key=lambda span: (span[0], span[1]))


def lanes(spans: Sequence[tuple[float, float, int]], apart: float) -> list[int]:
    """The lane of each window: the first in which it is `apart` from the window before it."""
    ends: list[float] = []
    chosen = []
    for start, end, _ in spans:
        lane = next((number for number, until in enumerate(ends) if until + apart <= start), len(ends))
        ends[lane : lane + 1] = [end]
        chosen.append(lane)
    return chosen


def row_kind(kind: str, v: int) -> str:
    if kind != "state":
        return "row"
    return "open" if v > 100 else "emit" if v < 10 else "row"  # the conditions of the picture's query


def window_picture(kind: str) -> str:
    call, caption = KINDS[kind]
    spans = windows_of(call.replace("&gt;", ">").replace("&lt;", "<"))
    half_open = kind in {"tumbling", "hopping", "cumulate", "session"}
    where = lanes(spans, 0 if half_open else 1)
    axis = 62 + LANE * (max(where) + 1) + (34 if kind == "state" else 24)
    parts = [text(20, 28, call, "strong"), text(20, 48, caption, "small")]
    inset = 1.5 if half_open else -7
    for (start, end, count), lane in zip(spans, where, strict=True):
        y = axis - (36 if kind == "state" else 26) - LANE * (lane + 1) + 4
        left, right = max(x(start) + inset, 12), min(x(end) - inset, WIDTH - 12)
        parts += [box(left, y, right, LANE - 6), text((left + right) / 2, y + 16, f"{count}", "small", "middle")]
    parts += time_axis(axis, 40)
    inside = [any(start <= ts <= end for start, end, _ in spans) for ts, _ in ROWS]
    for number, ((ts, v), within) in enumerate(zip(ROWS, inside, strict=True)):
        parts.append(dot(x(ts), axis, row_kind(kind, v) if within else "outside"))
        if kind == "state":
            parts.append(text(x(ts), axis - 11 - 11 * (number % 2), f"v={v}", "small", "middle"))
    legend = "● rows by event time; the number in a window is how many rows it has"
    parts.append(text(20, axis + 44, f"{legend}; ○ in no window" if not all(inside) else legend, "small"))
    return svg(f"{kind} windows", axis + 58, parts)


# ---- the watermark, and what happens to a late row ------------------------------------------------------------------

BATCHES = ((2, 6, 4), (9, 13, 7), (12, 18, 8), (22, 16, 26), (5, 29, 24))
LAG, LATENESS = 3, 5


def run_batches() -> Iterator[tuple[tuple[int, ...], float | None, float, set[int]]]:
    """For each micro-batch: its rows, the watermark before and after it, and the times of its late rows."""
    harness = Harness(
        "SELECT window_start, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10)",
        streams={"s": STREAM},
        options={"eventtime.enabled": True, "eventtime.late_tolerance": f"{LAG}s"},
        transform={"allowed_lateness": f"{LATENESS}s"},
        now=0,
    )
    before = None
    for batch in BATCHES:
        step = harness.push([{"ts": ts, "v": 0} for ts in batch])
        late = {int(record["event_time"][17:19]) for record in step.side if record["kind"] == "late"}
        after = step.watermark.timestamp()
        yield batch, before, after, late
        before = after


def late_picture() -> str:
    top, bottom, column = 60, 400, 122

    def y(seconds: float) -> float:
        return bottom - seconds * (bottom - top) / 32

    parts = [
        text(20, 28, f"tumblingwindow('ss', 10), lag {LAG} s, allowed lateness {LATENESS} s", "strong"),
        text(20, 46, "event time", "small"),
    ]
    parts += [box(x(0) + 4 + column * n, top, x(0) + column * (n + 1) - 4, bottom - top, "batch") for n in range(5)]
    for second in range(0, 31, 10):
        parts += [line(x(0), y(second), x(0) + 5 * column, y(second), "grid")]
        parts += [text(x(0) - 8, y(second) + 4, f"{second} s", "small", "end")]
    mark = ""
    for number, (batch, before, after, late) in enumerate(run_batches()):
        left, right = x(0) + column * number, x(0) + column * (number + 1)
        for place, ts in enumerate(batch):
            end = ts // 10 * 10 + 10
            kind = "late" if ts in late else "accepted" if before is not None and before >= end else "open"
            parts.append(dot(left + column * (place + 1) / 4, y(ts), kind))
            parts.append(text(left + column * (place + 1) / 4 + 8, y(ts) + 4, f"{ts}", "small"))
        if before is not None:
            mark += f"{'M' if not mark else 'L'}{left:g} {y(before):g} L{right:g} {y(before):g} "
        parts.append(text((left + right) / 2, bottom + 18, f"micro-batch {number}", "small", "middle"))
        parts.append(text((left + right) / 2, bottom + 34, closing(before, after), "small", "middle"))
    parts.append(f'<path d="{mark}" class="mark"/>')
    parts.append(text(x(0) + column * 1.02, y(run_watermark(0)) + 15, "watermark", "marktext"))
    keys = (("open", "on time"), ("accepted", "late, but accepted"), ("late", "late: becomes a side row"))
    for number, (kind, words) in enumerate(keys):
        parts += [dot(60 + 190 * number, bottom + 60, kind), text(72 + 190 * number, bottom + 64, words, "small")]
    return svg("What happens to a late row", bottom + 82, parts)


def run_watermark(batch: int) -> float:
    return list(run_batches())[batch][2]


def closing(before: float | None, after: float) -> str:
    """Which window the batch closes, in words."""
    ends = [end for end in (10, 20, 30) if (before or 0) < end + LATENESS <= after]
    return "".join(f"closes [{end - 10}, {end})" for end in ends)


def time_line_picture() -> str:
    """The README's picture: windows and the watermark at one moment."""
    axis, marks = 150, 22
    parts = [text(20, 28, "tumblingwindow('ss', 10), 5 s of allowed lateness", "strong")]
    states = ((0, 10, "closed, emitted"), (10, 20, "accepts late rows"), (20, 30, "open"), (30, 40, "open"))
    for start, end, state in states:
        kind = "grace" if "late" in state else "window"
        parts += [box(x(start) + 2, 62, x(end) - 2, 52, kind)]
        parts += [text(x(start + 5), 84, f"[{start}, {end})", "", "middle")]
        parts += [text(x(start + 5), 102, state, "small", "middle")]
    parts += time_axis(axis, 40)
    parts += [dot(x(ts), axis) for ts in (2, 6, 8, 12, 14, 17, 21, 23, 25)]
    parts += [dot(x(4), axis, "late"), dot(x(16), axis, "accepted")]
    parts += [line(x(marks), 44, x(marks), axis + 28, "mark")]
    parts += [text(x(marks) + 6, 52, "watermark: 3 s behind the newest row", "marktext")]
    notes = (
        (x(16), "accepted", "16 s arrives now: its window ended less than 5 s ago, the row still counts"),
        (x(4), "late", "4 s arrives now: its window is closed, the row goes to the side output with its reason"),
    )
    for number, (at, kind, words) in enumerate(notes):
        y = axis + 46 + 22 * number
        parts += [line(at, axis + 24, at, y - 4, "grid"), dot(at, y - 4, kind), text(at + 12, y, words, "small")]
    return svg("Windows and the watermark on a time line", axis + 86, parts)


def pictures() -> dict[str, str]:
    drawn = {f"window-{kind}.svg": window_picture(kind) for kind in KINDS}
    return drawn | {"late-row.svg": late_picture(), "time-line.svg": time_line_picture()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures of the docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture is out of date")
    options: Any = parser.parse_args(arguments)
    stale = []
    for name, drawing in pictures().items():
        path = IMAGES / name
        if not path.exists() or path.read_text(encoding="utf-8") != drawing:
            stale.append(name)
            if not options.check:
                path.write_text(drawing, encoding="utf-8")
    if stale:
        print("out of date:" if options.check else "drawn:", ", ".join(stale))
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
