"""The files of deploy/: what can be checked without a container engine, a Kubernetes cluster or a running systemd.

`make check-deploy` adds linters and the schemas of Kubernetes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from windowpane.config import load_pipeline
from windowpane.plan.pipeline import plan_pipeline

DEPLOY = Path(__file__).parents[2] / "deploy"
ENTRYPOINT = DEPLOY / "docker" / "entrypoint.sh"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def pipeline_of_kubernetes() -> str:
    found = [each for each in documents("kubernetes/pipeline.yaml") if each["kind"] == "ConfigMap"]
    return str(found[0]["data"]["pipeline.toml"])


def test_the_pipelines_can_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_PASSWORD", "secret")
    file = tmp_path / "pipeline.toml"
    for text in (pipeline_of_kubernetes(), (DEPLOY / "docker" / "pipeline.toml").read_text(encoding="utf-8")):
        file.write_text(text, encoding="utf-8")
        assert [plan.transform for plan in plan_pipeline(load_pipeline(file))] == ["hot"]


def test_compose_refers_to_what_it_has() -> None:
    compose = documents("docker/docker-compose.yml")[0]
    services = compose["services"]
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        for name, needed in service.get("depends_on", {}).items():
            assert needed["condition"] != "service_healthy" or "healthcheck" in services[name]
        named = [volume.split(":")[0] for volume in service.get("volumes", []) if volume[0] not in "./"]
        assert set(named) <= compose["volumes"].keys()
    assert (DEPLOY / "docker" / services["pipeline"]["build"]["context"]).resolve() == DEPLOY.parent
    assert (DEPLOY.parent / services["pipeline"]["build"]["dockerfile"]).is_file()


def test_the_image_copies_files_that_exist() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", text, re.MULTILINE)
        for name in line.split()
    ]
    assert copied
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_executors_and_driver_agree_on_names_and_ports() -> None:
    by_kind = {each["kind"]: each for each in documents("kubernetes/pipeline.yaml")}
    service, pods, text = by_kind["Service"], by_kind["StatefulSet"]["spec"]["template"], pipeline_of_kubernetes()
    assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    ports = {each["name"]: each["containerPort"] for each in pods["spec"]["containers"][0]["ports"]}
    assert {each["name"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert f'"spark.driver.host" = "{service["metadata"]["name"]}"' in text
    assert f'"spark.driver.port" = {ports["driver"]}' in text
    assert f'"spark.driver.blockManager.port" = {ports["blocks"]}' in text
    assert by_kind["StatefulSet"]["spec"]["replicas"] == 1
    assert f"{by_kind['StatefulSet']['metadata']['name']}-0" in text


def entered(tmp_path: Path, *arguments: str, **environment: str) -> list[str]:
    """The command that the entry point ends in, word by word."""
    for name in ("bin/java", "bin/spark-submit"):
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\nprintf \'%s\\n\' "${0##*/}" "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    given = {"PATH": os.environ["PATH"], "SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)} | environment
    done = subprocess.run(["bash", ENTRYPOINT, *arguments], env=given, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_entry_point_of_an_executor(tmp_path: Path) -> None:
    names = ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID",
             "EXECUTOR_POD_NAME")  # fmt: skip
    given = {f"SPARK_{name}": f"<{name}>" for name in names} | {"SPARK_EXECUTOR_MEMORY": "1g"}
    options = {f"SPARK_JAVA_OPT_{number}": f"-D{number}=a b" for number in range(12)}
    words = entered(tmp_path, "executor", **given, **options)
    assert words[:13] == ["java", *(f"-D{number}=a b" for number in range(12))]
    assert words[13:15] == ["-Xms1g", "-Xmx1g"]
    assert words[-14:] == [
        "--driver-url", "<DRIVER_URL>", "--executor-id", "<EXECUTOR_ID>", "--cores", "<EXECUTOR_CORES>",
        "--app-id", "<APPLICATION_ID>", "--hostname", "<EXECUTOR_POD_IP>",
        "--resourceProfileId", "<RESOURCE_PROFILE_ID>", "--podName", "<EXECUTOR_POD_NAME>",
    ]  # fmt: skip
    assert entered(tmp_path, "executor", **given)[1] == "-Xms1g", "no options of Java"


def test_the_entry_point_of_a_driver_and_of_a_command(tmp_path: Path) -> None:
    words = entered(tmp_path, "driver", "--class", "x", "a b", SPARK_DRIVER_BIND_ADDRESS="10.0.0.1")
    assert words[0] == "spark-submit"
    assert "spark.driver.bindAddress=10.0.0.1" in words
    assert words[-5:] == ["--deploy-mode", "client", "--class", "x", "a b"]
    assert entered(tmp_path, "echo", "a b") == ["a b"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_of_systemd() -> None:
    unit = DEPLOY / "systemd" / "windowpane@.service"
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name.partition("@")[0] in line]
    assert [line for line in complaints if "is not executable" not in line] == []
