"""Queries whose results go through window functions, DISTINCT and grouping; one stream, `s`."""

from __future__ import annotations

SCHEMA = "ts BIGINT, k STRING, g INT, v BIGINT, x DOUBLE, d DECIMAL(20, 2)"
WINDOW = "FROM s GROUP BY tumblingwindow('ss', 4)"
COUNTED = f"SELECT k, count(*) AS n, window_start, window_end {WINDOW}, k"
TOP = f"SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM ({COUNTED})"
QUERIES = {
    "ranks": "SELECT k, g, window_start, row_number() OVER (PARTITION BY g ORDER BY sum(v)) AS n, "
    "rank() OVER (ORDER BY max(x)) AS r, dense_rank() OVER (ORDER BY max(x) DESC NULLS FIRST) AS d, "
    "percent_rank() OVER (ORDER BY g) AS p, cume_dist() OVER (ORDER BY g DESC) AS c, ntile(3) OVER (ORDER BY k) AS t "
    f"{WINDOW}, k, g",
    "neighbours": "SELECT k, g, lag(sum(v)) OVER (PARTITION BY g ORDER BY max(v)) AS a, "
    "lead(max(x), 2, -1) OVER (ORDER BY k, g) AS b, lag(max(x), 1) IGNORE NULLS OVER (ORDER BY k, g) AS c, "
    f"lead(max(x)) IGNORE NULLS OVER (ORDER BY k, g) AS d {WINDOW}, k, g",
    "values": "SELECT k, g, first_value(k) OVER (ORDER BY g) AS a, last_value(k) OVER (ORDER BY g) AS b, "
    "nth_value(k, 2) OVER (ORDER BY g) AS c, first_value(k) IGNORE NULLS OVER (ORDER BY g DESC) AS d, "
    "last_value(max(x)) IGNORE NULLS OVER (ORDER BY g RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS e, "
    "nth_value(max(x), 2) IGNORE NULLS OVER (ORDER BY k, g ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS f, "
    f"first(k) OVER () AS h, any_value(g) OVER (PARTITION BY k) AS i {WINDOW}, k, g",
    "frames": "SELECT k, g, sum(sum(v)) OVER (ORDER BY g) AS a, "
    "sum(sum(v)) OVER (PARTITION BY k ORDER BY g ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS b, "
    "avg(sum(v)) OVER (ORDER BY k, g ROWS 2 PRECEDING) AS c, count(k) OVER (ORDER BY g) AS d, count(*) OVER () AS e, "
    "max(max(x)) OVER (ORDER BY k ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS f, "
    "min(k) OVER (ORDER BY g RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS h, "
    "sum(max(d)) OVER (ORDER BY g) AS i, "
    "count_if(g > 1) OVER (PARTITION BY k) AS j, bool_or(g = 1) OVER () AS l, "
    f"sum(count(*)) FILTER (WHERE g = 1) OVER () AS m {WINDOW}, k, g",
    "qualify": f"SELECT k, g, sum(v) AS s, window_start {WINDOW}, k, g HAVING count(*) < 9 "
    "QUALIFY row_number() OVER (PARTITION BY g ORDER BY sum(v) DESC) <= 2 ORDER BY s, k, g",
    "rows": "SELECT ts, k, v, row_number() OVER (PARTITION BY k ORDER BY g) AS n FROM s "
    "GROUP BY hoppingwindow('ss', 4, 2) QUALIFY n <= 2",
    "sliding": "SELECT k, count(*) AS n, rank() OVER (ORDER BY count(*)) AS r, trigger_time FROM s "
    "GROUP BY slidingwindow('ss', 2), k",
    "session": "SELECT k, g, window_start, lag(k) OVER (ORDER BY k) AS b FROM s GROUP BY sessionwindow('ss', 1), k, g",
    "errors": f"SELECT k, 6 / (rank() OVER (ORDER BY 1 / (sum(v) % 3)) - 2) AS q {WINDOW}, k",
    "overflow": f"SELECT k, sum(sum(v) * 200000000000000000) OVER (ORDER BY k) AS s {WINDOW}, k",
    "distinct": f"SELECT DISTINCT g, count(*) AS n, window_start {WINDOW}, k, g ORDER BY n, g LIMIT 3",
    "distinct_rows": "SELECT DISTINCT k, x FROM s WINDOW HOPPING (SIZE 4 SECONDS, SLIDE 2 SECONDS)",
    "groups": "SELECT window_start, g, max(n) AS m, sum(n) AS s, max_by(k, n) AS b, count(*) AS c FROM "
    f"(SELECT window_start, window_end, k, g, count(*) AS n {WINDOW}, k, g) GROUP BY window_start, window_end, g "
    "HAVING count(*) > 1 ORDER BY s DESC",
    "rollup": "SELECT window_start, k, g, count(*) AS n, sum(v) AS s, grouping_id() AS i, "
    f"rank() OVER (PARTITION BY grouping_id() ORDER BY sum(v)) AS r {WINDOW}, ROLLUP (k, g)",
    "join": f"WITH c AS ({COUNTED}) SELECT a.k, a.n, b.m FROM c AS a "
    "JOIN (SELECT max(n) AS m, window_start, window_end FROM c GROUP BY window_start, window_end) AS b "
    "ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.n >= b.m",
    "top": f"SELECT k, n FROM ({TOP}) WHERE r <= 2",
}
