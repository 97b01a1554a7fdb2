"""Runs Flink SQL and says how long each job took. It stands alone: Flink's environment has nothing of windowpane.

`python flink_job.py TASK.json`: `{"settings": {…}, "jobs": {name: [statement, …]}, "answer": PATH}`. The last statement
of each is the job that is timed. The answer is `{name: seconds}`, by Flink's own account of each job's run time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    environment = create(task["settings"])
    took = {name: _seconds(environment, statements) for name, statements in task["jobs"].items()}
    Path(task["answer"]).write_text(json.dumps(took), encoding="utf-8")


def create(settings: dict[str, str]) -> Any:
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    return TableEnvironment.create(chosen.build())


def _seconds(environment: Any, statements: list[str]) -> float:
    for statement in statements[:-1]:
        environment.execute_sql(statement)
    result = environment.execute_sql(statements[-1])
    result.wait()
    return float(result.get_job_client().get_job_execution_result().result().get_net_runtime()) / 1000


if __name__ == "__main__":
    main()
