"""Joins of streams by brute force: all rows are kept, and every pair is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Joined = tuple[object, ...]
OUTCOMES = ("aggregated", "filtered", "late", "unmatched", "duplicate")


@dataclass(frozen=True)
class JoinQuery:
    """A join of the streams a (ts, k, v) and b (ts, k, w). `slide`: None for tumbling windows. Times are ms."""

    kind: str
    size: int = 1
    slide: int | None = None
    lateness: int = 0
    condition: bool = False
    """ON also asks for v > w."""
    where: str | None = None
    interval: tuple[int, int] | None = None
    """Without a window: b.ts - a.ts is in this range, bounds included."""
    grouped: str | None = None
    """`k` groups by the key of the left side, `all` counts all joined rows of a window."""
    listed: bool = False
    """Inner: FROM a, b, with all conditions in WHERE."""
    dedupe: tuple[str, ...] = ()
    """Columns of dedupe.key; copies are never too far apart to be found. Streams that lack one are not compared."""

    def transform(self) -> dict[str, object]:
        return {"dedupe": {"key": list(self.dedupe), "within": "1s"}} if self.dedupe else {}

    def sql(self) -> str:
        words = {"inner": "JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}
        on = "a.k = b.k" + (" AND v > w" if self.condition else "")
        if self.interval is not None:
            on += f" AND b.ts BETWEEN a.ts + ({self.interval[0]}) AND a.ts + {self.interval[1]}"
        one_sided = self.kind in ("semi", "anti")
        rights = "" if one_sided else ", w, b.k AS bk"
        counted = "count(*) AS n, sum(v) AS v" + ("" if one_sided else ", sum(v * w) AS p, max(w) AS w")
        select = {None: f"a.k, v{rights}", "k": f"a.k, {counted}", "all": counted}[self.grouped]
        window = f"TUMBLING (SIZE {self.size} MILLISECONDS)"
        if self.slide is not None:
            window = f"HOPPING (SIZE {self.size} MILLISECONDS, SLIDE {self.slide} MILLISECONDS)"
        late = f" WATERMARK (ALLOWED LATENESS {self.lateness} MILLISECONDS)" if self.lateness else ""
        where = f" WHERE {self.where}" if self.where else ""
        group = " GROUP BY a.k" if self.grouped == "k" else ""
        joined = f"FROM a {words.get(self.kind, f'{self.kind.upper()} JOIN')} b ON {on}{where}"
        if self.listed:
            joined = f"FROM a, b WHERE {self.where + ' AND ' if self.where else ''}{on}"
        if self.interval is not None:
            return f"SELECT {select} {joined}"
        return f"SELECT window_start, window_end, {select} {joined}{group} WINDOW {window}{late}"


@dataclass(eq=False)
class Row:
    """Rows are told apart by identity."""

    side: str
    ts: int
    key: str | None
    value: int | None
    windows: set[int] = field(default_factory=set)
    """Starts of the windows that it is in."""
    used: bool = False
    filtered: bool = False


Pair = tuple[Row | None, Row | None]
WHERES: dict[str | None, Callable[[int | None, int | None], bool]] = {
    None: lambda v, w: True,
    "v > 1": lambda v, w: v is not None and v > 1,
    "w > 1": lambda v, w: w is not None and w > 1,
    "w IS NULL": lambda v, w: w is None,
    "v + w > 3": lambda v, w: v is not None and w is not None and v + w > 3,
    "coalesce(w, 5) > 2": lambda v, w: (5 if w is None else w) > 2,
}


class JoinOracle:
    """What a query gives, step by step: results, and the outcomes of rows."""

    def __init__(self, query: JoinQuery) -> None:
        self.query = query
        self.rows: list[Row] = []
        self.maxima: dict[str, int] = {}
        self.watermark: int | None = None
        self.closed: set[int] = set()
        self.seen: set[tuple[object, ...]] = set()

    def _is_copy(self, row: Row) -> bool:
        """Whether an earlier row of the same stream has the same key."""
        values = {"k": row.key, {"a": "v", "b": "w"}[row.side]: row.value}
        if not self.query.dedupe or not values.keys() >= set(self.query.dedupe):
            return False
        key = (row.side, *(values[name] for name in self.query.dedupe))
        known = key in self.seen
        self.seen.add(key)
        return known

    def push(self, side: str, rows: list[tuple[int, str | None, int | None]]) -> tuple[list[Joined], dict[str, int]]:
        counts = dict.fromkeys(OUTCOMES, 0)
        for ts, key, value in rows:
            self.maxima[side] = max(ts, self.maxima.get(side, ts))
            row = Row(side, ts, key, value)
            if self._filters(row):
                counts["filtered"] += 1
                continue
            if self._is_copy(row):
                counts["duplicate"] += 1
                continue
            row.windows = {start for start in self._starts(ts) if not self._is_closed(start)}
            if row.windows:
                self.rows.append(row)
            else:
                counts["late"] += 1
        if len(self.maxima) == 2:
            self.watermark = max(min(self.maxima.values()), self.watermark or -(10**18))
        return self._close([start for start in self._open() if self._is_closed(start)], counts), counts

    def end(self) -> tuple[list[Joined], dict[str, int]]:
        counts = dict.fromkeys(OUTCOMES, 0)
        return self._close(self._open(), counts), counts

    def _filters(self, row: Row) -> bool:
        """WHERE on one side alone is applied before the join, if the join does not preserve the other side's rows."""
        where, kind = self.query.where, self.query.kind
        if where == "v > 1" and row.side == "a" and kind in ("inner", "left", "semi", "anti"):
            return not WHERES[where](row.value, None)
        if where in ("w > 1", "w IS NULL", "coalesce(w, 5) > 2") and row.side == "b" and kind in ("inner", "right"):
            return not WHERES[where](None, row.value)
        return False

    def _starts(self, ts: int) -> list[int]:
        slide = self.query.slide or self.query.size
        last = ts // slide * slide
        return [start for start in range(last, ts - self.query.size, -slide) if start <= ts < start + self.query.size]

    def _is_closed(self, start: int) -> bool:
        return self.watermark is not None and start + self.query.size + self.query.lateness <= self.watermark

    def _open(self) -> list[int]:
        return sorted({start for row in self.rows for start in row.windows} - self.closed)

    def _close(self, starts: list[int], counts: dict[str, int]) -> list[Joined]:
        found: list[Joined] = []
        for start in starts:
            self.closed.add(start)
            joined = self._joined([row for row in self.rows if start in row.windows])
            found += [(start, start + self.query.size, *row) for row in self._results(joined)]
        done = [row for row in self.rows if row.windows <= self.closed]
        self.rows = [row for row in self.rows if not row.windows <= self.closed]
        for row in done:
            excluded = self.query.kind == "anti" and row.side == "a"
            counts["aggregated" if row.used else "filtered" if excluded else "unmatched"] += 1
        return found

    def _joined(self, rows: list[Row]) -> list[tuple[Row | None, Row | None]]:
        kind, pairs = self.query.kind, list[Pair]()
        lefts, rights = [row for row in rows if row.side == "a"], [row for row in rows if row.side == "b"]
        matched: set[int] = set()
        for left in lefts:
            for right in rights:
                if left.key is not None and left.key == right.key and self._holds(left, right):
                    matched |= {id(left), id(right)}
                    pairs.append((left, right))
        for row in rows:
            found = id(row) in matched
            row.used |= found != (kind == "anti" and row.side == "a")
        alone_left: list[Pair] = [(left, None) for left in lefts if id(left) not in matched]
        alone_right: list[Pair] = [(None, right) for right in rights if id(right) not in matched]
        for row in rows:
            preserved = {"a": ("left", "full"), "b": ("right", "full")}[row.side]
            row.used |= kind in preserved
        if kind == "semi":
            return [(left, None) for left in lefts if id(left) in matched]
        if kind == "anti":
            return alone_left
        pairs += alone_left if kind in ("left", "full") else []
        return pairs + (alone_right if kind in ("right", "full") else [])

    def _holds(self, left: Row, right: Row) -> bool:
        values = left.value, right.value
        inner = self.query.kind == "inner" and not WHERES[self.query.where](*values)
        greater = None not in values and values[0] > values[1]  # type: ignore[operator]
        return not inner and (not self.query.condition or greater)

    def _results(self, joined: list[tuple[Row | None, Row | None]]) -> list[Joined]:
        none = Row("", 0, None, None)
        places = [(left or none, right or none) for left, right in joined]
        rows = [(left.key, left.value, right.value, right.key) for left, right in places]
        rows = [row for row in rows if WHERES[self.query.where](row[1], row[2])]
        one_sided = self.query.kind in ("semi", "anti")
        if self.query.grouped is None:
            return [row[:2] for row in rows] if one_sided else list(rows)
        groups: dict[object, list[Joined]] = {}
        for row in rows:
            groups.setdefault(row[0] if self.query.grouped == "k" else "all", []).append(row)
        found: list[Joined] = []
        for key, members in groups.items():
            values = [row[1] for row in members if row[1] is not None]
            products = [row[1] * row[2] for row in members if None not in row[1:3]]  # type: ignore[operator]
            others = [row[2] for row in members if row[2] is not None]
            result: Joined = (len(members), sum(values) if values else None)  # type: ignore[arg-type]
            if not one_sided:
                result += (sum(products) if products else None, max(others) if others else None)  # type: ignore[type-var]
            found.append((key, *result) if self.query.grouped == "k" else result)
        return found


class IntervalOracle(JoinOracle):
    """The same for joins without a window. A row at or behind the watermark is late."""

    def push(self, side: str, rows: list[tuple[int, str | None, int | None]]) -> tuple[list[Joined], dict[str, int]]:
        counts = dict.fromkeys(OUTCOMES, 0)
        fresh = []
        for ts, key, value in rows:
            self.maxima[side] = max(ts, self.maxima.get(side, ts))
            row = Row(side, ts, key, value)
            if self._filters(row):
                counts["filtered"] += 1
            elif self.watermark is not None and ts <= self.watermark:
                counts["late"] += 1
            elif self._is_copy(row):
                counts["duplicate"] += 1
            else:
                fresh.append(row)
        pairs = self._pairs(fresh)
        self.rows += fresh
        if len(self.maxima) == 2:
            self.watermark = max(min(self.maxima.values()), self.watermark or -(10**18))
        return self._results(pairs + self._expired(counts, self.watermark)), counts

    def end(self) -> tuple[list[Joined], dict[str, int]]:
        counts = dict.fromkeys(OUTCOMES, 0)
        return self._results(self._expired(counts, 10**18)), counts

    def _pairs(self, fresh: list[Row]) -> list[Pair]:
        found: list[Pair] = []
        for row in fresh:
            for other in [*self.rows, *fresh[: fresh.index(row)]]:
                left, right = (row, other) if row.side == "a" else (other, row)
                if (left.side, right.side) == ("a", "b") and self._are_partners(left, right):
                    found += [(left, None)] if self.query.kind == "semi" and not left.used else []
                    found += [(left, right)] if self.query.kind not in ("semi", "anti") else []
                    left.used = right.used = True
        return found

    def _are_partners(self, left: Row, right: Row) -> bool:
        assert self.query.interval is not None
        low, high = self.query.interval
        near = low <= right.ts - left.ts <= high
        return near and left.key is not None and left.key == right.key and self._holds(left, right)

    def _expired(self, counts: dict[str, int], watermark: int | None) -> list[Pair]:
        """Rows for which no partner can come any more."""
        found: list[Pair] = []
        if watermark is None:
            return found
        assert self.query.interval is not None
        reach = {"a": self.query.interval[1], "b": -self.query.interval[0]}
        kind = self.query.kind
        for row in [row for row in self.rows if row.ts + reach[row.side] <= watermark]:
            self.rows.remove(row)
            preserved = kind in {"a": ("left", "full", "anti"), "b": ("right", "full")}[row.side]
            if preserved and not row.used:
                found.append((row, None) if row.side == "a" else (None, row))
            excluded = kind == "anti" and row.side == "a"
            taken = row.used != excluded if excluded else row.used or preserved
            counts["aggregated" if taken else "filtered" if excluded else "unmatched"] += 1
        return found
