"""`windowpane diff`, `history` and `run` over a checkpoint whose query has changed. None of them needs Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from windowpane.checkpoint.evolution import change_to, handed_over
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.job_claims import claim_jobs
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.core.window_id import window_ids
from windowpane.plan.jobs import plan_jobs
from windowpane.plan.pipeline import plan_pipeline

PIPELINE = """
[streams.s]
format = "json"
path = "data"
schema = "ts BIGINT, k STRING, a BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_ms" }
[streams.t]
format = "rate"
eventtime.column = "timestamp"
[options]
eventtime.enabled = true
[transforms.same]
sql = "SELECT count(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS)"
sink = "out"
[transforms.taken]
sql = "SELECT k, sum(a) AS s, count(*) AS n FROM s GROUP BY k WINDOW TUMBLING (SIZE 10 SECONDS)"
sink = "out"
[transforms.wider]
sql = "SELECT max(a) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS)"
sink = "out"
[transforms.other]
sql = "SELECT min(a) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS)"
sink = "out"
[transforms.gone]
sql = "SELECT avg(a) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS)"
sink = "out"
[sinks.out]
format = "console"
"""
CHANGED = (
    PIPELINE.replace("k, sum(a) AS s, count(*) AS n", "k, count(*) AS n")
    .replace("max(a) AS n FROM s WINDOW TUMBLING (SIZE 10", "max(a) AS n FROM s WINDOW TUMBLING (SIZE 15")
    .replace("min(a) AS n FROM s", "min(value) AS n FROM t")
    .replace("transforms.gone", "transforms.fresh")
)


def claim(folder: Path, text: str, *, evolve: bool = False) -> None:
    (folder / "pipeline.toml").write_text(text)
    for plan in plan_pipeline(load_pipeline(folder / "pipeline.toml")):
        Checkpoint(FolderStore(folder / "state" / plan.transform)).claim(plan, 2, evolve=evolve)


def windowpane(command: str, folder: Path, *args: str) -> str:
    return CliRunner().invoke(app, [command, str(folder / "pipeline.toml"), *args]).output


def test_diff_says_what_a_start_would_do(tmp_path: Path) -> None:
    claim(tmp_path, PIPELINE)
    ledger = Checkpoint(FolderStore(tmp_path / "state" / "wider")).ledger
    ledger.write(Entry(0, 0, 30_000_000, {"in_": 1}, {"in_": 1}, 0, maxima={"s/0": 31_000_000}))
    (tmp_path / "pipeline.toml").write_text(CHANGED)
    found = json.loads(windowpane("diff", tmp_path, "--json"))
    assert {name: (each["change"], each["consent"]) for name, each in found.items()} == {
        "same": ("unchanged", False), "taken": ("state_dropped", True), "wider": ("hand_over", True),
        "other": ("refused", False), "fresh": ("new", False), "gone": ("removed", False),
    }  # fmt: skip
    assert found["wider"]["cut_us"] == 60_000_000
    assert found["taken"]["what"] == ["without sum(a)", "outputs"]
    text = windowpane("diff", tmp_path)
    assert "transform  consent        what happens" in text
    assert "cut at 1970-01-01 00:01:00" in " ".join(text.split())
    assert json.loads(windowpane("diff", tmp_path, "--json", "--transform", "same")) == {
        "same": {"change": "unchanged", "what": [], "reason": "", "consent": False, "cut_us": None}
    }


def test_a_run_needs_consent_and_says_what_it_would_be(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    claim(tmp_path, PIPELINE)
    (tmp_path / "pipeline.toml").write_text(CHANGED)
    refused = windowpane("run", tmp_path, "--transform", "taken")
    assert "[CHECKPOINT_OTHER_QUERY]" in refused
    assert "taken over, and state that is no longer needed is dropped (without sum(a), outputs)" in refused
    assert "windowpane run --evolve" in refused
    handed = windowpane("run", tmp_path, "--transform", "wider")
    assert "The change would be hand-over: the old query keeps the windows before the cut" in handed
    assert "rows of other streams were never in its state" in windowpane("run", tmp_path, "--transform", "other")


def test_history_lists_the_plans_of_a_checkpoint(tmp_path: Path) -> None:
    only = PIPELINE.replace("[transforms.same]", "[transforms.taken2]").partition("[transforms.wider]")[0]
    tail = '[sinks.out]\nformat = "console"\n'
    claim(tmp_path, only + tail)
    changed = only.replace("k, sum(a) AS s, count(*) AS n", "k, count(*) AS n") + tail
    claim(tmp_path, changed, evolve=True)
    claim(tmp_path, changed.replace("k, count(*) AS n", "k AS key, count(*) AS n"), evolve=True)
    plans = json.loads(windowpane("history", tmp_path, "--json"))["taken"]
    assert [each["change"] for each in plans] == ["new", "state_dropped", "taken_over"]
    record = Checkpoint(FolderStore(tmp_path / "state" / "taken")).record()
    assert record.windows_of == plans[0]["plan_id"]
    assert record.shape is not None
    assert record.shape.aggregates == (("_a1", "count(*)"),)  # the name that the state has
    assert "taken over (outputs)" in windowpane("history", tmp_path, "--transform", "taken")


def test_a_query_that_comes_back_has_windows_of_its_own(tmp_path: Path) -> None:
    """Their ids differ from those that the same query gave before, and are made alike."""
    claim(tmp_path, PIPELINE)
    checkpoint = Checkpoint(FolderStore(tmp_path / "state" / "wider"))
    record = checkpoint.record()
    wider = PIPELINE.replace(
        "max(a) AS n FROM s WINDOW TUMBLING (SIZE 10", "max(a) AS n FROM s WINDOW TUMBLING (SIZE 15"
    )
    for number, text in enumerate([wider, PIPELINE]):
        entry = Entry(number, 0, 30_000_000, {"in_": 1}, {"in_": 1}, 0, maxima={"s/0": 31_000_000 * (number + 1)})
        checkpoint.ledger.write(entry)
        (tmp_path / "pipeline.toml").write_text(text)
        plan = plan_pipeline(load_pipeline(tmp_path / "pipeline.toml"), "wider")[0]
        record = handed_over(record, plan, change_to(record, plan), entry)
        checkpoint.plan.write(record)
    first, second, third = record.plans
    assert (first.plan_id, third.plan_id) == (record.plan_id, record.plan_id)
    assert [second.cut_us, third.cut_us] == [60_000_000, 90_000_000]
    assert record.windows_of is not None
    assert record.windows_of != record.plan_id
    assert len(window_ids(record.windows_of, np.zeros(1, np.int64), np.ones(1, np.int64))) == 1
    assert [(each.version, each.from_us, each.until_us) for each in (*record.earlier, record)] == [
        (1, None, 60_000_000), (2, 60_000_000, 90_000_000), (3, 90_000_000, None),
    ]  # fmt: skip


def test_a_record_of_an_earlier_version_goes_on_and_learns_its_plan(tmp_path: Path) -> None:
    claim(tmp_path, PIPELINE)
    file = tmp_path / "state" / "taken" / "plan.json"
    older = {key: value for key, value in json.loads(file.read_text()).items() if key not in ("shape", "plans")}
    file.write_text(json.dumps(older))
    (tmp_path / "pipeline.toml").write_text(CHANGED)
    assert "an earlier version made this checkpoint" in " ".join(windowpane("diff", tmp_path).split())
    assert "taken" in windowpane("history", tmp_path)
    claim(tmp_path, PIPELINE)
    assert json.loads(file.read_text())["shape"]["streams"] == ["s"]


def test_diff_of_transforms_that_share_a_job(tmp_path: Path) -> None:
    """Their ledger is in the job's folder: the cut is ahead of what the job has read."""
    texts = [PIPELINE, CHANGED]
    (tmp_path / "pipeline.toml").write_text(texts[0])
    config = load_pipeline(tmp_path / "pipeline.toml")
    store = FolderStore(tmp_path / "state")
    assert len(claim_jobs(store, plan_jobs(config, plan_pipeline(config)), config.options)) == 1
    entry = Entry(0, 0, 30_000_000, {"in_": 1}, {"in_": 1}, 0, maxima={"s/0": 31_000_000})
    transform_checkpoint(store, "wider").ledger.write_all({"wider": entry})
    (tmp_path / "pipeline.toml").write_text(texts[1])
    found = json.loads(windowpane("diff", tmp_path, "--json", "--transform", "wider"))
    assert found["wider"]["cut_us"] == 60_000_000
    gone = json.loads(windowpane("diff", tmp_path, "--json"))["gone"]
    assert (gone["change"], gone["consent"]) == ("removed", True)
    assert "--drain-removed lets it emit its open windows" in gone["reason"]
    refused = windowpane("run", tmp_path)
    assert "the pipeline no longer has `gone`" in refused
    assert "--drain-removed" in refused
