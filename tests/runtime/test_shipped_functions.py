"""The module of a user's aggregate is pickled by value: a worker that cannot import it can use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.plan.test_functions import folder
from windowpane.config import load_pipeline
from windowpane.core.accumulators import build_accumulator, user_classes
from windowpane.plan.functions import load_functions
from windowpane.spark.user_functions import _ship

__all__ = ["folder"]  # a fixture
READ = "import pickle, sys; found = pickle.load(open(sys.argv[1], 'rb')); print(len(found.state_types))"


@pytest.mark.slow
def test_a_worker_needs_no_copy_of_the_module(folder: Path) -> None:
    load_functions(load_pipeline(folder / "pipeline.toml"))
    for each in user_classes():
        _ship(each)
    accumulator = build_accumulator("longest", [pa.string()])
    pickled = folder / "pickled"
    pickled.write_bytes(cloudpickle.dumps(accumulator))  # type: ignore[no-untyped-call]
    command = [sys.executable, "-c", READ, str(pickled)]
    assert subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout == "2\n"
