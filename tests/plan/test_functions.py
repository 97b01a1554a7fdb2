"""[functions] of pipeline.toml: loaded and checked at planning time, and called in the harness as on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windowpane
from windowpane.config import load_pipeline
from windowpane.core import user_functions
from windowpane.core.accumulators import registry
from windowpane.errors import WindowpaneError
from windowpane.plan.functions import load_functions
from windowpane.plan.pipeline import plan_pipeline
from windowpane.testing import golden

MODULE = """
import pyarrow as pa
import pyarrow.compute as pc
import windowpane as wp
from beside import FACTOR

def score(price, bidder=None):
    return 100.0 / price * FACTOR

def double(values):
    if pc.any(pc.equal(values, 7)).as_py():
        raise ValueError("no sevens")
    return pc.multiply(values, 2)

def label(at):
    return f"{at:%H:%M} ß"

class Longest(wp.Aggregate):
    name = "longest"
    input_types = [pa.string()]
    state_types = [pa.string()]
    output_type = pa.string()

    def update(self, texts):
        if "bad" in texts.to_pylist():
            raise ValueError("bad text")
        return max(texts.to_pylist(), key=len, default=None)

    def merge(self, left, right):
        return max(each or "" for each in (left, right)) or None

    def evaluate(self, state):
        return state

NUMBER = 3
"""
PIPELINE = '''
[streams.s]
format = "json"
path = "in"
create = true
schema = "ts TIMESTAMP, k STRING, price BIGINT"
eventtime = { column = "ts" }

[functions.score]
module = "my_functions"
returns = "double"

[functions.twice]
module = "lib/my_functions.py"
function = "double"
kind = "arrow"
returns = "BIGINT"

[functions.label]
module = "my_functions"
returns = "STRING"

[functions.longest]
module = "my_functions"
function = "Longest"
kind = "aggregate"

[options]
eventtime.enabled = true
checkpoint = "state"

[transforms.t]
sql = """
SELECT k, sum(score(price)) AS total, max(twice(price)) AS top, longest(k) AS l
FROM s WHERE label(ts) > '' GROUP BY k, tumblingwindow('ss', 10)"""
sink = "out"

[sinks.out]
format = "json"
path = "out"
'''
GOLDEN = """# A function that raises makes an error row of its row; an aggregate that raises, one of its group.
pipeline pipeline.toml transform t

push s
  ts | k   | price
  1s | x   | 50
  2s | x   | 0
  3s | y   | 7
  4s | bad | 25
  5s | x   | 200
expect accounting in 5, aggregated 3, error 2
expect side
  kind  | reason           | group_key.k
  error | evaluation_error | x
  error | evaluation_error | y

end
expect rows
  k | total | top | l
  x | 5.0   | 400 | x
expect side
  kind  | reason           | group_key.k
  error | evaluation_error | bad
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "lib").mkdir()
    for place in (tmp_path, tmp_path / "lib"):
        (place / "my_functions.py").write_text(MODULE)
    (tmp_path / "beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    yield tmp_path
    for function in user_functions.registered():
        user_functions.unregister(function.name)
    registry._functions.pop("longest", None)


def test_functions_are_called_in_golden_files(folder: Path) -> None:
    path = folder / "x.slt"
    path.write_text(GOLDEN)
    for verdict in golden.check(golden.read_golden(path), golden.MODES):
        assert not verdict.render(), verdict.render()


@pytest.mark.parametrize(
    ("change", "code", "line", "message"),
    [
        (('module = "my_functions"\nreturns = "double"', 'module = "gone"\nreturns = "double"'),
         "MODULE_NOT_FOUND", 10, "there is no module `gone`"),
        (('"lib/my_functions.py"', '"lib/gone.py"'), "MODULE_NOT_FOUND", 14, "there is no file `lib/gone.py`"),
        (('function = "double"', 'function = "dobule"'), "FUNCTION_NOT_FOUND", 15, "has no function `dobule`"),
        (('function = "double"', 'function = "NUMBER"'), "BAD_FUNCTION", 15, "`NUMBER` is not a function"),
        (('returns = "double"', 'returns = "floatish"'), "BAD_FUNCTION", 11, "`floatish` is not a type"),
        (('returns = "double"\n', ""), "MISSING_KEY", 9, "the type of `score` is missing"),
        (('function = "Longest"', 'function = "score"'), "BAD_FUNCTION", 25, "is not a class of that kind"),
        (('kind = "aggregate"', 'kind = "aggregate"\nreturns = "INT"'), "CONFLICTING_KEYS", 27, "has no `returns`"),
        (("[functions.label]", "[functions.upper]\nfunction = 'label'"), "FUNCTION_EXISTS", 19, "already a function"),
        (("score(price)", "score(price, k, 1)"), "FUNCTION_ARGUMENTS", 34, "cannot be called with 3 arguments"),
        (("score(price)", "scroe(price)"), "UNKNOWN_FUNCTION", 34, "there is no function `scroe`"),
        (("label(ts) > ''", "label(ts)"), "NOT_BOOLEAN", 35, "of type STRING"),
    ],
)  # fmt: skip
def test_mistakes_are_found_at_planning_time(
    folder: Path, change: tuple[str, str], code: str, line: int, message: str
) -> None:
    assert PIPELINE.count(change[0]) >= 1
    (folder / "pipeline.toml").write_text(PIPELINE.replace(change[0], change[1], 1))
    with pytest.raises(WindowpaneError) as refused:
        plan_pipeline(load_pipeline(folder / "pipeline.toml"))
    error: Any = refused.value
    assert (error.code, getattr(error, "line", None) or error.file_line) == (code, line), error.render()
    assert message in error.message
    assert str(folder / "pipeline.toml") in error.render()


def test_a_module_that_fails_names_its_error(folder: Path) -> None:
    (folder / "my_functions.py").write_text("1 / 0\n")
    with pytest.raises(WindowpaneError) as refused:
        load_functions(load_pipeline(folder / "pipeline.toml"))
    assert refused.value.code == "MODULE_FAILED"
    assert "ZeroDivisionError" in refused.value.message


def test_a_changed_module_is_loaded_again(folder: Path) -> None:
    config = load_pipeline(folder / "pipeline.toml")
    load_functions(config)
    (folder / "my_functions.py").write_text(MODULE.replace("100.0 / price * FACTOR", "1.0"))
    load_functions(config)
    found = user_functions.find("Score")
    assert found is not None
    assert found.call(5) == 1.0


def test_functions_from_python(folder: Path) -> None:
    windowpane.register_function("plus_one", lambda value: value + 1, "INT")
    query = "SELECT plus_one(v) AS n FROM s WHERE plus_one(v) <> 3"
    harness = windowpane.Harness(query, streams={"s": {"schema": "v INT"}})
    step = harness.push([{"v": 1}, {"v": 2}, {"v": None}])
    assert [row["n"] for row in step.rows] == [2]
    assert (step.accounting.filtered, step.accounting.error) == (1, 1)
    with pytest.raises(WindowpaneError) as refused:
        windowpane.register_function("upper", str, "STRING")
    assert refused.value.code == "FUNCTION_EXISTS"
    with pytest.raises(WindowpaneError) as refused:
        windowpane.register_function("f", str, "TEXTISH")
    assert refused.value.code == "BAD_FUNCTION"
