"""Machines of the cluster tests: what they see of each other, and that they can be paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.machines import DEADLINE, SCRATCH, network

pytestmark = pytest.mark.slow

END = f"{SCRATCH}/end"
UNTIL_THE_END = f"while [ ! -e {END} ]; do sleep 0.01; done"


def test_a_machine_that_was_paused_goes_on(tmp_path: Path) -> None:
    with network(tmp_path, ("one", "two")) as connected:
        machine, other = connected.add("one"), connected.add("two")
        command = machine.start(tmp_path / "log", "sh", "-c", UNTIL_THE_END)
        for _ in range(10):
            machine.pause()
            machine.resume()
        assert command.poll() is None
        other.run("touch", END)
        assert "end" not in machine.run("ls", SCRATCH)
        machine.run("touch", END)
        assert command.wait(DEADLINE) == 0
