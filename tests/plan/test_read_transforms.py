"""Transforms that read each other: where mistakes are shown, which of them run, and the graph they form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.errors import WindowpaneError
from windowpane.plan.pipeline import plan_pipeline

PIPELINE = '''\
[streams.bids]
format = "json"
path = "data"
schema = "auction BIGINT, price BIGINT, ts STRING"
eventtime = { column = "ts", type = "iso8601" }

[tables.items]
format = "csv"
path = "items"
schema = "auction BIGINT, category STRING"

[options]
eventtime.enabled = true

[transforms.hot]
sql = """
SELECT auction, count(*) AS n
FROM bids JOIN items USING (auction)
GROUP BY auction
WINDOW TUMBLING (SIZE 10 SECONDS)
"""

[transforms.hottest]
sql = "SELECT auction FROM Hot WHERE n > 10"
sink = "out"

[transforms.hourly]
sql = "SELECT auction, sum(n) AS n FROM hot GROUP BY auction WINDOW TUMBLING (SIZE 1 HOUR)"
sink = "out"

[sinks.out]
format = "console"
'''


def plans(folder: Path, *changes: tuple[str, str]) -> list[str]:
    text = PIPELINE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "pipeline.toml").write_text(text)
    return [plan.transform for plan in plan_pipeline(load_pipeline(folder / "pipeline.toml"))]


def refusal(folder: Path, *changes: tuple[str, str]) -> str:
    with pytest.raises(WindowpaneError) as caught:
        plans(folder, *changes)
    return caught.value.render().replace(str(folder), "")


def test_a_transform_without_a_sink_runs_only_in_those_that_read_it(tmp_path: Path) -> None:
    assert plans(tmp_path) == ["hottest", "hourly"]
    with pytest.raises(WindowpaneError, match="has no sink, so it cannot run by itself"):
        plan_pipeline(load_pipeline(tmp_path / "pipeline.toml"), "hot")
    unread = refusal(
        tmp_path, ("FROM Hot WHERE n > 10", "FROM bids"), ("sum(n) AS n FROM hot", "sum(1) AS n FROM bids")
    )
    assert "[MISSING_KEY] `transforms.hot` needs the key `sink`" in unread
    assert "read `hot` in another transform" in unread
    routed = refusal(
        tmp_path, ("[transforms.hottest]", '[transforms.hot.side_output]\nlate.sink = "out"\n\n[transforms.hottest]')
    )
    assert "UNSUPPORTED_ROUTE" in routed


def test_a_cycle_shows_its_path_and_its_place(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path, ("FROM bids JOIN items USING (auction)", "FROM hottest"), (" WHERE n > 10", ""))
        == """\
[TRANSFORM_CYCLE] transforms read each other in a circle: hot → hottest → hot
  at /pipeline.toml:24, line 1, column 21 of the SQL
    SELECT auction FROM Hot
                        ^^^
hint: let one of them read a stream"""
    )


def test_a_mistake_is_shown_in_the_transform_that_has_it(tmp_path: Path) -> None:
    """Only where it is read, a column of the inner transform turns out not to be computable by workers."""
    found = refusal(
        tmp_path,
        ('[transforms.hottest]\nsql = "SELECT auction FROM Hot WHERE n > 10"\nsink = "out"\n', ""),
        ("count(*) AS n\n", "count(*) AS n,\n  soundex(max(category)) AS s\n"),
        ("auction, sum(n) AS n FROM hot GROUP BY auction", "s, sum(n) AS n FROM hot GROUP BY s"),
        ('"""\n\n', '"""\nsink = "out"\n\n'),
    )
    assert found.startswith("[CHAIN_EXPRESSION]")
    assert "pipeline.toml:18, line 2, column 3 of the SQL\n      soundex(max(category)) AS s\n      ^" in found


def test_names_that_sql_cannot_tell_apart(tmp_path: Path) -> None:
    """A transform may have the name of the stream that it reads, as long as no other one reads that name."""
    alone = ('sql = "SELECT auction FROM Hot WHERE n > 10"', 'sql = "SELECT auction FROM bids"')
    named = ("[transforms.hottest]", "[transforms.BIDS]")
    plain = ("FROM bids JOIN items USING (auction)", "FROM Bids")
    refused = refusal(tmp_path, alone, named, plain)
    assert "[DUPLICATE_NAME] `Bids` is the name of a transform, and of a stream" in refused
    assert "SQL\n    FROM Bids\n         ^^^^" in refused
    shifted = [alone, named, plain, ("FROM Bids", "FROM asks"), ("[tables.items]", "[streams.asks]")]
    text = (
        'schema = "auction BIGINT, category STRING"',
        'schema = "auction BIGINT, ts TIMESTAMP"\neventtime.column = "ts"',
    )
    assert plans(tmp_path, *shifted, text) == ["BIDS", "hourly"]


def test_the_graph(tmp_path: Path) -> None:
    plans(tmp_path)
    runner, file = CliRunner(), str(tmp_path / "pipeline.toml")
    assert (
        runner.invoke(app, ["explain", file, "--graph"]).stdout
        == """\
bids (stream)
└─ hot: tumbling, 10s each
   ├─ hottest: of each result
   │  └─ out (sink)
   └─ hourly: tumbling, 1h each
      └─ out (sink)
items (table)
└─ hot (see above)
"""
    )
    assert '  "transform:hot" -> "transform:hourly";' in runner.invoke(app, ["explain", file, "--dot"]).stdout
    mermaid = runner.invoke(app, ["explain", file, "--mermaid"]).stdout.splitlines()
    assert mermaid[:3] == ["flowchart LR", '  n0(["bids (stream)"])', '  n1[("items (table)")]']
    graph = json.loads(runner.invoke(app, ["check", file, "--json"]).stdout)["graph"]
    assert ["transform:hot", "transform:hottest"] in graph["edges"]
    assert "└─ hot: tumbling" in runner.invoke(app, ["check", file]).stdout
    assert runner.invoke(app, ["explain", file, "--dot", "--mermaid"]).exit_code == 2
