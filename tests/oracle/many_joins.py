"""Joins of three streams, of a stream with itself, and of results of windows; UNION ALL of results; by brute force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Row = tuple[int, str | None, int | None]
"""Time in ms, key, value."""
Rows = dict[str, list[Row]]
"""By stream: a, b and d."""
Results = list[tuple[object, ...]]
LATE = " WATERMARK (LAG 100 MILLISECONDS)"
"""More than the rows of a test are apart: none is late."""
WINDOW = " WINDOW TUMBLING (SIZE 10 MILLISECONDS)"
NEAR = "b.ts BETWEEN a.ts - 3 AND a.ts + 6"
THEN = "d.ts BETWEEN b.ts - 2 AND b.ts + 4"
HOPS = f" WINDOW HOPPING (SIZE 10 MILLISECONDS, SLIDE 4 MILLISECONDS){LATE}"
MARKS = [(1, "one"), (1, "uno"), (2, "two"), (None, "none")]
"""The static table `marks`: id, title."""
QUERIES = {
    "window": f"SELECT v, w, x FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k AND x > v{WINDOW}{LATE}",
    "left": f"SELECT v, w, x FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN d ON d.k = a.k AND x > v{WINDOW}{LATE}",
    "other keys": f"SELECT v, w, x FROM a JOIN b ON a.k = b.k JOIN d ON d.x = b.w{WINDOW}{LATE}",
    "interval": f"SELECT v, w, x FROM a JOIN b ON a.k = b.k AND {NEAR} JOIN d ON d.k = b.k AND {THEN}{LATE}",
    "by the first": f"SELECT v, w, x FROM a LEFT JOIN b ON a.k = b.k AND {NEAR} LEFT JOIN d ON d.k = a.k AND "
    f"d.ts BETWEEN a.ts AND a.ts + 9{LATE}",
    "counted": f"SELECT j.k, count(*) AS n, sum(x) AS x FROM (SELECT a.k, x FROM a JOIN b ON a.k = b.k AND {NEAR} "
    f"JOIN d ON d.k = b.k AND {THEN}{LATE}) AS j GROUP BY j.k{WINDOW}",
    "itself": "SELECT a.v, b.v AS w, b.ts AS x FROM a JOIN a AS b ON a.k = b.k AND b.ts BETWEEN a.ts - 4 AND a.ts"
    f"{LATE}",
    "itself in windows": "SELECT a.v, b.v AS w, b.ts AS x FROM a LEFT JOIN a AS b ON a.k = b.k AND b.v > a.v"
    f"{WINDOW}{LATE}",
    "its maximum": "SELECT v, m AS w, a.ts AS x FROM a JOIN (SELECT k, max(v) AS m FROM a GROUP BY k, "
    f"tumblingwindow('ms', 10){LATE}) AS t ON a.k = t.k AND a.v = t.m{WINDOW}{LATE}",
    "two results": "SELECT n AS v, m AS w, p.window_start AS x FROM (SELECT k, count(*) AS n, window_start, window_end "
    f"FROM a GROUP BY k, tumblingwindow('ms', 10){LATE}) AS p JOIN (SELECT k, max(w) AS m, window_start, "
    f"window_end FROM b GROUP BY k, tumblingwindow('ms', 10){LATE}) AS q ON p.k = q.k AND "
    "p.window_start = q.window_start AND p.window_end = q.window_end",
    "two tables": f"SELECT v, m.title, n.title AS other FROM a JOIN b ON a.k = b.k LEFT JOIN marks AS m ON m.id = b.w "
    f"JOIN marks AS n ON n.id = a.v{WINDOW}{LATE}",
    "overlapping": f"SELECT v, w, x FROM (SELECT a.k, v, w, window_start, window_end FROM a JOIN b ON a.k = b.k{HOPS}) "
    f"AS p JOIN (SELECT k, x, window_start, window_end FROM d{HOPS}) AS q ON p.k = q.k AND "
    "p.window_start = q.window_start AND p.window_end = q.window_end",
    "hops": f"SELECT v, w, x FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k{HOPS}",
    "hops left": f"SELECT v, w, x FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN d ON d.k = a.k AND x > v{HOPS}",
    "hops counted": f"SELECT a.k, count(*) AS n, sum(x) AS x FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k "
    f"GROUP BY a.k{HOPS}",
    "cumulated": "SELECT v, w, x FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k WINDOW CUMULATE (STEP 5 MILLISECONDS, "
    f"SIZE 10 MILLISECONDS){LATE}",
    "united": "SELECT k, count(*) AS n, sum(n) AS s FROM (SELECT k, count(*) AS n FROM a GROUP BY k, "
    f"tumblingwindow('ms', 10){LATE} UNION ALL SELECT k, v FROM a WHERE v > 1 UNION ALL SELECT k, max(w) FROM b "
    f"GROUP BY k{HOPS}) AS u GROUP BY k WINDOW TUMBLING (SIZE 20 MILLISECONDS){LATE}",
    "united rows": f"SELECT k, count(*) AS n, window_start FROM a GROUP BY k, tumblingwindow('ms', 10){LATE} UNION ALL "
    f"SELECT a.k, w, window_start FROM a JOIN b ON a.k = b.k{HOPS}",
    "a union": f"SELECT u.k, v, x FROM (SELECT k, v FROM a UNION ALL SELECT k, w FROM b WHERE w > 0) AS u JOIN d "
    f"ON u.k = d.k{HOPS}",
    "four": f"SELECT a.v, w, x FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k JOIN a AS e ON e.ts = a.ts AND e.k = a.k"
    f"{WINDOW}{LATE}",
    "the first": "SELECT k, sum(m) AS m, count(*) AS n FROM (SELECT k, max(v) AS m FROM a GROUP BY k, "
    f"tumblingwindow('ms', 10) ORDER BY m DESC, k LIMIT 2{LATE}) AS t GROUP BY k, tumblingwindow('ms', 20)",
    "ranked": "SELECT v, r AS w, a.ts AS x FROM a JOIN (SELECT k, row_number() OVER (ORDER BY max(v) DESC, k) AS r "
    f"FROM a GROUP BY k, tumblingwindow('ms', 10) QUALIFY r < 3{LATE}) AS t ON a.k = t.k AND v > r{WINDOW}{LATE}",
}


def brute(name: str, rows: Rows) -> Results:
    """All results of a query, from all rows."""
    return _BRUTE[name](rows["a"], rows["b"], rows["d"])


def pairs(
    lefts: Sequence[Any], rights: Sequence[Any], holds: Callable[[Any, Any], bool], *, outer: bool = False
) -> Any:
    """Partners; with `outer` also the left rows that have none."""
    found = [(left, right) for left in lefts for right in rights if holds(left, right)]
    alone = [(left, None) for left in lefts if not any(holds(left, right) for right in rights)]
    return found + (alone if outer else [])


def same(one: Row, other: Row) -> bool:
    return one[1] is not None and one[1] == other[1]


def within(one: Row, other: Row) -> bool:
    return same(one, other) and one[0] // 10 == other[0] // 10


def near(one: Row, other: Row, low: int, high: int) -> bool:
    return same(one, other) and low <= other[0] - one[0] <= high


def above(one: Row, other: Row) -> bool:
    return one[2] is not None and other[2] is not None and one[2] > other[2]


def values(found: Any) -> Results:
    """Of pairs of a pair and a row."""
    return [tuple(None if row is None else row[2] for row in (one, other, third)) for (one, other), third in found]


def _windows(a: list[Row], b: list[Row], d: list[Row], *, outer: bool = False) -> Results:
    joined = pairs(a, b, within, outer=outer)
    return values(pairs(joined, d, lambda pair, row: within(pair[0], row) and above(row, pair[0]), outer=outer))


def _four(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    joined = pairs(pairs(a, b, within), d, lambda pair, row: within(pair[0], row))
    found = pairs(joined, a, lambda three, row: same(three[0][0], row) and three[0][0][0] == row[0])
    return values([three for three, _ in found])


def _two_tables(a: list[Row], b: list[Row], _: list[Row]) -> Results:
    marked = [(row, title) for row in a for mark, title in MARKS if mark is not None and mark == row[2]]
    titles = {row: [title for mark, title in MARKS if mark is not None and mark == row[2]] for row in b}
    others = [(row, titles[row] or ["NULL"]) for row in b]
    found = pairs(marked, others, lambda one, other: within(one[0], other[0]))
    return [(one[0][2], None if title == "NULL" else title, one[1]) for one, other in found for title in other[1]]


def _starts(row: Row) -> set[int]:
    """Of windows of 10 ms every 4 ms."""
    return {start for start in range(row[0] - 9, row[0] + 1) if start % 4 == 0}


def _overlapping(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    triples = [(x, y, z) for x in a for y in b for z in d if same(x, y) and same(x, z)]
    return [(x[2], y[2], z[2]) for x, y, z in triples for _ in _starts(x) & _starts(y) & _starts(z)]


def _a_union(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    rows = [*a, *(row for row in b if row[2] is not None and row[2] > 0)]
    return [(x[1], x[2], z[2]) for x in rows for z in d if same(x, z) for _ in _starts(x) & _starts(z)]


def _hops_left(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    found: Results = []
    for start in {start for row in a for start in _starts(row)}:
        lefts, middles, rights = ([row for row in rows if start in _starts(row)] for rows in (a, b, d))
        joined = pairs(lefts, middles, same, outer=True)
        last = pairs(joined, rights, lambda pair, row: same(pair[0], row) and above(row, pair[0]), outer=True)
        found += values(last)
    return found


def _hops_counted(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    groups: dict[tuple[str | None, int], list[int | None]] = {}
    for x, y, z in ((x, y, z) for x in a for y in b for z in d if same(x, y) and same(x, z)):
        for start in _starts(x) & _starts(y) & _starts(z):
            groups.setdefault((x[1], start), []).append(z[2])
    known = {group: [each for each in found if each is not None] for group, found in groups.items()}
    return [(group[0], len(found), sum(known[group]) if known[group] else None) for group, found in groups.items()]


def _cumulated(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    triples = [(x, y, z) for x in a for y in b for z in d if within(x, y) and within(x, z)]
    return [(x[2], y[2], z[2]) for x, y, z in triples for end in (5, 10)
            if all(row[0] % 10 < end for row in (x, y, z))]  # fmt: skip


def _united(a: list[Row], b: list[Row], _: list[Row]) -> Results:
    """Results have the last instant of their window."""
    rows: list[tuple[str | None, int, int | None]] = []
    rows += [(key, 10 * start + 9, len(found)) for (key, start), found in _groups(a).items()]
    rows += [(key, ts, value) for ts, key, value in a if value is not None and value > 1]
    for key, start in {(row[1], start) for row in b for start in _starts(row)}:
        own = [row[2] for row in b if row[1] == key and start in _starts(row)]
        rows.append((key, start + 9, _largest(own)))
    groups: dict[tuple[str | None, int], list[int | None]] = {}
    for key, ts, value in rows:
        groups.setdefault((key, ts // 20), []).append(value)
    known = {group: [each for each in found if each is not None] for group, found in groups.items()}
    return [(group[0], len(found), sum(known[group]) if known[group] else None) for group, found in groups.items()]


def _united_rows(a: list[Row], b: list[Row], _: list[Row]) -> Results:
    found = [(key, len(found), 10 * start) for (key, start), found in _groups(a).items()]
    pairs_of = [(x[1], y[2], start) for x in a for y in b if same(x, y) for start in _starts(x) & _starts(y)]
    return [*found, *pairs_of]


def _other_keys(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    def hold(pair: tuple[Row, Row], row: Row) -> bool:
        return row[2] is not None and row[2] == pair[1][2] and row[0] // 10 == pair[0][0] // 10

    return values(pairs(pairs(a, b, within), d, hold))


def _in_time(a: list[Row], b: list[Row], d: list[Row]) -> Any:
    joined = pairs(a, b, lambda one, other: near(one, other, -3, 6))
    return pairs(joined, d, lambda pair, row: near(pair[1], row, -2, 4))


def _by_the_first(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    joined = pairs(a, b, lambda one, other: near(one, other, -3, 6), outer=True)
    return values(pairs(joined, d, lambda pair, row: near(pair[0], row, 0, 9), outer=True))


def _counted(a: list[Row], b: list[Row], d: list[Row]) -> Results:
    """The last ON compares the time of `b` with that of `d`: the later one is the time of the result."""
    groups: dict[tuple[str | None, int], list[int]] = {}
    for (one, other), row in _in_time(a, b, d):
        found = groups.setdefault((one[1], max(other[0], row[0]) // 10), [0])
        found[0] += 1
        found += [] if row[2] is None else [row[2]]
    return [(key, found[0], sum(found[1:]) if found[1:] else None) for (key, _), found in groups.items()]


def _itself(a: list[Row], *_: list[Row]) -> Results:
    return [(one[2], other[2], other[0]) for one, other in pairs(a, a, lambda one, other: near(one, other, -4, 0))]


def _itself_in_windows(a: list[Row], *_: list[Row]) -> Results:
    found = pairs(a, a, lambda one, other: within(one, other) and above(other, one), outer=True)
    return [(one[2], other and other[2], other and other[0]) for one, other in found]


def _groups(rows: list[Row]) -> dict[tuple[str | None, int], list[int | None]]:
    found: dict[tuple[str | None, int], list[int | None]] = {}
    for ts, key, value in rows:
        found.setdefault((key, ts // 10), []).append(value)
    return found


def _largest(found: Sequence[int | None]) -> int | None:
    return max((each for each in found if each is not None), default=None)


def _its_maximum(a: list[Row], *_: list[Row]) -> Results:
    groups = _groups(a)
    return [(value, value, ts) for ts, key, value in a
            if key is not None and value is not None and value == _largest(groups[key, ts // 10])]  # fmt: skip


def _two_results(a: list[Row], b: list[Row], _: list[Row]) -> Results:
    others = _groups(b)
    return [(len(found), _largest(others[key, start]), 10 * start) for (key, start), found in _groups(a).items()
            if key is not None and (key, start) in others]  # fmt: skip


def _ranks(rows: list[Row]) -> dict[tuple[str | None, int], int]:
    """The rank of each key among those of its window, by its largest value."""
    groups, found = _groups(rows), dict[tuple[str | None, int], int]()
    for start in {start for _, start in groups}:
        tops = {key: _largest(values) for (key, own), values in groups.items() if own == start}
        ordered = sorted(tops, key=lambda key: (tops[key] is None, -(tops[key] or 0), key is not None, key or ""))
        found |= {(key, start): number for number, key in enumerate(ordered, 1)}
    return found


def _first(a: list[Row], *_: list[Row]) -> Results:
    groups, sums = _groups(a), dict[tuple[str | None, int], list[int | None]]()
    for (key, start), rank in _ranks(a).items():
        if rank <= 2:
            sums.setdefault((key, start // 2), []).append(_largest(groups[key, start]))
    known = {group: [each for each in values if each is not None] for group, values in sums.items()}
    return [(group[0], sum(known[group]) if known[group] else None, len(values)) for group, values in sums.items()]


def _ranked(a: list[Row], *_: list[Row]) -> Results:
    ranks = _ranks(a)
    return [(value, ranks[key, ts // 10], ts) for ts, key, value in a
            if key is not None and value is not None and value > ranks[key, ts // 10] < 3]  # fmt: skip


_BRUTE: dict[str, Callable[[list[Row], list[Row], list[Row]], Results]] = {
    "window": _windows,
    "left": lambda a, b, d: _windows(a, b, d, outer=True),
    "a union": _a_union,
    "four": _four,
    "two tables": _two_tables,
    "overlapping": _overlapping,
    "hops": _overlapping,
    "united": _united,
    "united rows": _united_rows,
    "hops left": _hops_left,
    "hops counted": _hops_counted,
    "cumulated": _cumulated,
    "other keys": _other_keys,
    "interval": lambda a, b, d: values(_in_time(a, b, d)),
    "by the first": _by_the_first,
    "counted": _counted,
    "itself": _itself,
    "itself in windows": _itself_in_windows,
    "its maximum": _its_maximum,
    "two results": _two_results,
    "the first": _first,
    "ranked": _ranked,
}
