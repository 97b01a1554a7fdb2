"""`windowpane init --from`: a pipeline for files that are there. It can be checked and previewed as it is."""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app

ROWS: list[dict[str, Any]] = [
    {
        "order_id": at,
        "country": ("de", "fr", "it")[at % 3],
        "amount": at + 0.5,
        "event_time": 1_767_225_600_000 + at * 500,
    }
    for at in range(300)
]


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, result.stdout, result.stderr


def settings(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pipeline.toml").read_text(encoding="utf-8"))


def previewed(folder: Path) -> dict[str, Any]:
    code, out, _ = run("preview", str(folder / "pipeline.toml"), "--json")
    assert code == 0, out
    found: dict[str, Any] = json.loads(out)["transforms"][0]
    return found


def json_lines(path: Path, rows: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def json_zip(path: Path, rows: Sequence[object]) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def json_zst(path: Path, rows: Sequence[object]) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows).encode())


def csv_file(path: Path, rows: Sequence[Any]) -> None:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def parquet(path: Path, rows: Sequence[Any]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def arrow(path: Path, rows: Sequence[Any]) -> None:
    table = pa.Table.from_pylist(list(rows))
    with pa.ipc.new_file(str(path), table.schema) as out:
        out.write(table)


FORMATS: dict[str, tuple[str, Callable[[Path, Sequence[Any]], None]]] = {
    "a.json": ("json", json_lines), "a.jsonl.gz": ("json", json_zip), "a.json.zst": ("json", json_zst),
    "a.csv": ("csv", csv_file), "a.parquet": ("parquet", parquet), "a.arrow": ("arrow", arrow),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, tmp_path: Path) -> None:
    format_, write = FORMATS[name]
    (tmp_path / "orders").mkdir()
    write(tmp_path / "orders" / name, ROWS)
    code, out, err = run("init", str(tmp_path / "job"), "--from", str(tmp_path / "orders"))
    assert (code, err) == (0, "")
    assert "event time  event_time as unixtimestamp_ms; all rows in order" in out
    made = settings(tmp_path / "job")
    assert made["streams"]["orders"]["format"] == format_
    assert made["streams"]["orders"]["schema"] == "order_id BIGINT, country STRING, amount DOUBLE, event_time BIGINT"
    assert "country" in made["transforms"]["orders_counts"]["sql"]
    assert run("check", str(tmp_path / "job" / "pipeline.toml"))[0] == 0
    found = previewed(tmp_path / "job")
    assert found["account"]["aggregated"] == len(ROWS)
    counts = [row["row_count"] for row in found["results"] + found["results_of_open_windows"]]
    assert sum(counts) == len(ROWS)
    assert found["results"]


def test_relative_paths_are_seen_from_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    json_lines(Path("in/orders-001.json"), ROWS)
    assert run("init", "jobs/one", "--from", "in/orders-*.json")[0] == 0
    (stream,) = settings(Path("jobs/one"))["streams"].values()
    assert stream["path"] == "../../in/orders-*.json"
    assert previewed(Path("jobs/one"))["account"]["in"] == len(ROWS)


def test_a_single_file_is_read_from_its_folder(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.json", ROWS)
    json_lines(tmp_path / "b.json", ROWS)
    assert run("init", str(tmp_path / "job"), "--from", str(tmp_path / "a.json"))[0] == 0
    stream = settings(tmp_path / "job")["streams"]["a"]
    assert (stream["path"], stream["options"]) == (str(tmp_path), {"pathGlobFilter": "a.json"})
    assert previewed(tmp_path / "job")["account"]["in"] == len(ROWS)


def test_disorder_suggests_the_lag(tmp_path: Path) -> None:
    late = [{**row, "event_time": row["event_time"] - (8_000 if at % 4 == 3 else 0)} for at, row in enumerate(ROWS)]
    json_lines(tmp_path / "a.json", late)
    code, out, _ = run("init", str(tmp_path / "job"), "--from", str(tmp_path / "a.json"), "--json")
    assert code == 0
    found = json.loads(out)["eventtime"]
    assert (found["suggested_lag"], found["out_of_order_rows"]) == ("10s", 75)
    assert settings(tmp_path / "job")["options"]["eventtime"]["late_tolerance"] == "10s"
    assert previewed(tmp_path / "job")["account"]["late"] == 0


def test_without_a_time_column_windows_use_processing_time(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.json", [{"k": at % 3, "v": at} for at in range(30)])
    code, out, _ = run("init", str(tmp_path / "job"), "--from", str(tmp_path / "a.json"))
    assert code == 0
    assert "event time  none found, so windows use processing time" in out
    assert settings(tmp_path / "job")["options"]["eventtime"] == {"enabled": False}
    assert previewed(tmp_path / "job")["account"]["aggregated"] == 30


def test_values_that_do_not_fit_are_in_the_comments(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.json", [*ROWS, {**ROWS[0], "amount": "a lot"}])
    assert run("init", str(tmp_path / "job"), "--from", str(tmp_path / "a.json"))[0] == 0
    text = (tmp_path / "job" / "pipeline.toml").read_text(encoding="utf-8")
    assert '`amount` is "a lot", not DOUBLE' in text
    assert previewed(tmp_path / "job")["account"]["error"] == 1


def test_folders_name_columns(tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / "orders" / f"dt=2026-01-0{day}" / f"part={day}"
        folder.mkdir(parents=True)
        json_lines(folder / "a.json", ROWS[:100])
    assert run("init", str(tmp_path / "job"), "--from", str(tmp_path / "orders"))[0] == 0
    stream = settings(tmp_path / "job")["streams"]["orders"]
    assert stream["schema"].endswith("event_time BIGINT, dt DATE, part INT")
    path = tmp_path / "job" / "pipeline.toml"
    text = path.read_text(encoding="utf-8")
    sql = "SELECT dt, part, count(*) AS n FROM orders GROUP BY tumblingwindow('dd', 1), dt, part"
    before, _, rest = text.partition("sql = '''")
    path.write_text(f"{before}sql = '''{sql}'''{rest.partition(chr(39) * 3)[2]}", encoding="utf-8")
    rows = previewed(tmp_path / "job")["results_of_open_windows"]
    assert {(row["dt"], row["part"], row["n"]) for row in rows} == {("2026-01-01", 1, 100), ("2026-01-02", 2, 100)}


def test_folders_below_and_files_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "in" / "one").mkdir(parents=True)
    json_lines(tmp_path / "in" / "one" / "a.json", ROWS)
    (tmp_path / "in" / "one" / "readme.txt").write_text("hello")
    (tmp_path / "in" / "one" / "_SUCCESS").write_text("")
    assert run("init", str(tmp_path / "job"), "--from", str(tmp_path / "in"))[0] == 0
    stream = next(iter(settings(tmp_path / "job")["streams"].values()))
    assert stream["options"] == {"recursiveFileLookup": True, "pathGlobFilter": "*.json"}
    assert previewed(tmp_path / "job")["account"]["in"] == len(ROWS)


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("nothing", "PATH_NOT_FOUND", "there is no file or folder"),
        ("*.nothing", "PATH_NOT_FOUND", "no file or folder matches"),
        ("empty", "NO_FILES", "there are no files"),
        ("odd", "UNKNOWN_FORMAT", ".docx"),
        ("orc", "NEEDS_SPARK", "orc files"),
        ("blank", "NO_ROWS", "no row can be read"),
        ("broken.parquet", "FILE_UNREADABLE", "cannot be read"),
        ("hdfs://there/x", "UNSUPPORTED_ADDRESS", "hdfs://"),
        ("kafka://there:9092", "BAD_ADDRESS", "names no topic"),
    ],
)
def test_errors(source: str, code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, file, text in (
        ("empty", None, ""), ("odd", "a.docx", "x"), ("orc", "a.orc", "x"), ("blank", "a.json", "\n"),
        (".", "broken.parquet", "x"),
    ):  # fmt: skip
        Path(folder).mkdir(exist_ok=True)
        if file is not None:
            (Path(folder) / file).write_text(text)
    exit_code, out, err = run("init", "job", "--from", source)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"[{code}]")
    assert words in err
    assert not Path("job").exists()


def test_an_unreachable_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("windowpane.remote.kafka_sample.ANSWER_SECONDS", 0.5)
    code, _, err = run("init", str(tmp_path), "--from", "kafka://localhost:1/orders")
    assert code == 2
    assert err.startswith("[BROKER_UNREACHABLE] the Kafka broker at `localhost:1` cannot be read")


def test_without_the_client_of_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    code, _, err = run("init", str(tmp_path), "--from", "kafka://localhost:1/orders")
    assert code == 2
    assert err.startswith("[MISSING_PACKAGE]")
    assert "windowpane[kafka]" in err


def test_an_existing_pipeline_stays(tmp_path: Path) -> None:
    json_lines(tmp_path / "a.json", ROWS)
    (tmp_path / "pipeline.toml").write_text("mine")
    code, _, err = run("init", str(tmp_path), "--from", str(tmp_path / "a.json"))
    assert (code, err[:13]) == (2, "[FILE_EXISTS]")
    assert (tmp_path / "pipeline.toml").read_text() == "mine"


def test_rows_needs_from(tmp_path: Path) -> None:
    code, _, err = run("init", str(tmp_path), "--rows", "5")
    assert (code, err[:12]) == (2, "[BAD_OPTION]")


def test_messy_folders(tmp_path: Path) -> None:
    """Empty, damaged and stray files do not stop it, whichever is the newest."""
    source = tmp_path / "in"
    source.mkdir()
    json_zip(source / "a.json.gz", ROWS)
    whole = (source / "a.json.gz").read_bytes()
    (source / "b.json.gz").write_bytes(whole[: len(whole) // 2])
    json_lines(source / "c.json", [{"order_id": "x", "other": 1}])
    (source / "d.json").write_text("")
    code, out, err = run("init", str(tmp_path / "job"), "--from", str(source))
    assert code == 0, out + err
    stream = settings(tmp_path / "job")["streams"]["events"]
    assert {"order_id BIGINT", "country STRING", "event_time BIGINT"} <= set(stream["schema"].split(", "))
    text = (tmp_path / "job/pipeline.toml").read_text()
    assert "b.json.gz cannot be read to its end" in text
    assert previewed(tmp_path / "job")["account"]["in"] > len(ROWS)


def test_messy_csv(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    csv_file(source / "a.csv", ROWS)
    (source / "b.csv").write_text("order_id,country\n1,de\n")
    (source / "c.csv").write_text("")
    code, out, err = run("init", str(tmp_path / "job"), "--from", str(source))
    assert code == 0, out + err
    stream = settings(tmp_path / "job")["streams"]["events"]
    assert stream["schema"] == "order_id BIGINT, country STRING, amount DOUBLE, event_time BIGINT"
    found = previewed(tmp_path / "job")["account"]
    assert (found["aggregated"], found["error"]) == (len(ROWS), 1)


def test_only_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    code, _, err = run("init", str(tmp_path / "job"), "--from", str(tmp_path))
    assert code == 2
    assert err.startswith("[FILE_UNREADABLE]")


def test_a_delta_table(tmp_path: Path) -> None:
    """Files that the table does not have any more are not read."""
    delta = pytest.importorskip("deltalake")
    rows = pa.Table.from_pylist(ROWS)
    for mode in ("overwrite", "overwrite", "append"):
        delta.write_deltalake(tmp_path / "orders", rows.slice(0, 150), mode=mode, partition_by=["country"])
    code, out, err = run("init", str(tmp_path / "job"), "--from", str(tmp_path / "orders"))
    assert code == 0, out + err
    stream = settings(tmp_path / "job")["streams"]["orders"]
    assert stream["format"] == "delta"
    assert stream["eventtime"]["column"] == "event_time"
    found = previewed(tmp_path / "job")
    assert found["account"]["in"] == 300
    emitted = found["results"] + found["results_of_open_windows"]
    assert {row["country"] for row in emitted} == {"de", "fr", "it"}
