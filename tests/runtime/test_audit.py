"""`windowpane audit` against planted faults: a changed entry, a lost row, a doubled file, offsets that go back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.runtime.planted import PIPELINE, RUN, entry, plant, put_rows, side_record
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.ledger_chain import CHAIN, digest_of
from windowpane.cli.app import app

WITHOUT_HAVING = (
    (PIPELINE % ("", "")).replace(" HAVING count(*) > 0", "").replace("count(*) AS n", "emit_epoch, count(*) AS n")
)
BATCHES = 4


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for batch in range(BATCHES):
        late = 1 if batch == 3 else 0
        maxima = {"bids/bids-0": f"12:0{batch}:05"}
        one = entry(batch, f"12:0{batch}:10", f"12:0{batch}:00", maxima, results=2, written=2,
                    accounting={"in_": 10 + late, "late": late}, side={"late": late} if late else {})  # fmt: skip
        totals = {name: count + (found[-1].totals[name] if found else 0) for name, count in one.accounting.items()}
        found.append(replace(one, totals=totals | {"buffered": 0}).summed(found[-1] if found else None))
    return found


def _row(batch: int, auction: int, epoch: int = 1) -> dict[str, Any]:
    day = "2026-01-31T11"
    return {"window_start": f"{day}:5{batch}:00.000000Z", "window_end": f"{day}:5{batch + 1}:00.000000Z",
            "auction": auction, "emit_epoch": epoch, "n": 5, "total": 9}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline with four batches in which everything is as it should be."""
    found = plant(tmp_path, _entries(), pipeline=WITHOUT_HAVING)
    spark = tmp_path / "state" / "hot" / "spark"
    for name in ("offsets", "commits"):
        (spark / name).mkdir(parents=True)
    for batch, each in enumerate(_entries()):
        put_rows(tmp_path / "out", batch, [_row(batch, 7), _row(batch, 8)])
        _offsets(spark, batch, each.clock_us, 10 * (batch + 1))
        (spark / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    put_rows(
        tmp_path / "late", 3, [side_record("12:00:30", "12:02:00", "12:03:10", ("12:00:00", "12:01:00"))], "hot.side"
    )
    return found


def _offsets(spark: Path, batch: int, clock_us: int, offset: int) -> None:
    about = json.dumps({"batchTimestampMs": clock_us // 1000, "conf": {}})
    (spark / "offsets" / str(batch)).write_text(f"v1\n{about}\n{json.dumps({'bids': {'0': offset}})}")


def audit(file: Path, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = CliRunner().invoke(app, ["audit", str(file), *arguments, "--json"])
    (found,) = json.loads(done.output)["transforms"]
    return done.exit_code, {check["check"]: check for check in found["checks"]}


def test_a_sound_pipeline_passes(file: Path) -> None:
    code, checks = audit(file)
    assert {name: check["status"] for name, check in checks.items()} == {
        "chain": "ok", "batches": "ok", "identity": "ok", "totals": "ok", "time": "ok", "source offsets": "ok",
        "results in out": "ok", "epochs in out": "ok", "side rows in late": "ok",
    }  # fmt: skip
    assert code == 0
    assert checks["results in out"]["detail"] == "8 rows emitted by 4 batches, 8 in the sink"


def _ledger(file: Path, batch: int) -> Path:
    return file.parent / "state" / "hot" / "ledger" / f"{batch:012}.json"


def _change(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _forge(content: dict[str, Any]) -> None:
    """Hide the late row, and compute the digest again."""
    content["accounting"] |= {"late": 0, "aggregated": 11}
    content[CHAIN]["own"] = digest_of(content, content[CHAIN]["before"])


def _tampered(file: Path) -> None:
    _change(_ledger(file, 1), lambda content: content.update(results=1))


def _forged(file: Path) -> None:
    _change(_ledger(file, 2), _forge)


def _unbalanced(file: Path) -> None:
    _change(_ledger(file, 2), lambda content: content["accounting"].update(late=5))


def _lost_entry(file: Path) -> None:
    _ledger(file, 1).unlink()


def _lost_file(file: Path) -> None:
    (file.parent / "out" / f"part-hot-{RUN}-{2:012}-00000.json").unlink()


def _doubled(file: Path) -> None:
    found = file.parent / "out" / f"part-hot-{RUN}-{2:012}-00000.json"
    found.with_name(found.name.replace("00000.json", "00001.json")).write_text(found.read_text())


def _missing_epoch(file: Path) -> None:
    put_rows(file.parent / "out", 2, [_row(2, 7), _row(2, 8, epoch=2)])


def _lost_side_row(file: Path) -> None:
    put_rows(file.parent / "late", 3, [], "hot.side")


def _offsets_back(file: Path) -> None:
    _offsets(file.parent / "state" / "hot" / "spark", 2, _entries()[2].clock_us, 15)


def _unknown_batch(file: Path) -> None:
    put_rows(file.parent / "out", 9, [_row(5, 7)])


@pytest.mark.parametrize(
    ("fault", "check", "finding"),
    [
        (_tampered, "chain", "batch 1: its content does not have the digest"),
        (_forged, "chain", "batch 2: batch 3 names another digest"),
        (_unbalanced, "identity", "batch 2: 10 rows in, but 15 with an outcome"),
        (_lost_entry, "batches", "batch 1 has no entry"),
        (_lost_file, "results in out", "batch 2: 2 rows were emitted, and the sink has 0"),
        (_doubled, "epochs in out", "emissions [1, 1]"),
        (_missing_epoch, "epochs in out", "emissions [2]"),
        (_lost_side_row, "side rows in late", "batch 3: 1 late rows were routed, the sink has 0"),
        (_offsets_back, "source offsets", "the offset of bids/0 goes back from 20 to 15"),
        (_unknown_batch, "results in out", "1 rows of batch 9, which the ledger does not have"),
    ],
)
def test_faults_are_found_and_named(file: Path, fault: Callable[[Path], None], check: str, finding: str) -> None:
    fault(file)
    code, checks = audit(file)
    assert code == 1
    assert checks[check]["status"] == "failed"
    assert any(finding in each for each in checks[check]["findings"]), checks[check]["findings"]


def test_the_report_can_be_handed_on(file: Path, tmp_path: Path) -> None:
    _tampered(file)
    page = tmp_path / "audit.html"
    done = CliRunner().invoke(app, ["audit", str(file), "--html", str(page)])
    assert done.exit_code == 1
    assert done.output.startswith("hot: FAILED\n")
    assert "chain: FAILED" in done.output
    text = page.read_text()
    assert "windowpane audit: FAILED" in text
    assert f"ledger/{1:012}.json" in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_a_ledger_without_digests_is_accepted_and_said_so(file: Path) -> None:
    for batch in range(BATCHES):
        _change(_ledger(file, batch), lambda content: content.pop(CHAIN))
    code, checks = audit(file)
    assert code == 0
    assert (checks["chain"]["status"], checks["chain"]["detail"]) == ("skipped", "earlier versions wrote no digests")
