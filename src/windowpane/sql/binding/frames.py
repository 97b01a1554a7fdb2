"""ROWS and RANGE of a window function."""

from __future__ import annotations

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.result_steps import Frame
from windowpane.sql.syntax.source import SourceText


def read_frame(source: SourceText, node: exp.Window, *, ordered: bool) -> Frame:
    """The frame as written, or SQL's default: up to the row and its peers, or everything without an order."""
    spec = node.args.get("spec")
    if spec is None:
        return Frame(end=0) if ordered else Frame()
    unit = str(spec.args.get("kind") or "").upper()
    if unit not in ("ROWS", "RANGE"):
        raise _bad(source, node, f"a frame of {unit} is not supported", "write ROWS BETWEEN … AND …")
    start = _offset(source, node, spec.args.get("start"), spec.args.get("start_side"), first=True)
    end = _offset(source, node, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), first=False)
    if unit == "RANGE" and (start or end):
        hint = "write ROWS BETWEEN … AND …"
        raise _bad(source, node, "RANGE with a distance is not supported", hint)
    if start is not None and end is not None and start > end:
        raise _bad(source, node, "the frame ends before it starts", "write the earlier bound first")
    if not ordered and not (start is None and end is None):
        raise _bad(source, node, "a frame needs ORDER BY in OVER", "write OVER (ORDER BY … ROWS BETWEEN …)")
    return Frame(unit == "ROWS", start, end)


def _offset(source: SourceText, node: exp.Window, value: object, side: object, *, first: bool) -> int | None:
    """The bound as an offset; None is unbounded."""
    after = str(side or "").upper() == "FOLLOWING"
    if value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if after == first:
            word = "start with UNBOUNDED FOLLOWING" if first else "end with UNBOUNDED PRECEDING"
            raise _bad(source, node, f"a frame cannot {word}", "write the earlier bound first")
        return None
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        return int(value.name) if after else -int(value.name)
    raise _bad(
        source, node, "a bound of a frame needs a whole number", "write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
    )


def _bad(source: SourceText, node: exp.Expr, message: str, hint: str) -> SqlError:
    return source.error("OVER_FRAME", message, hint, at=node)
