"""A package's image is built, and its container does no more than was declared."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import validated
from tests.support.environment_folders import write_files
from tests.support.services import docker_engine

from openenv.validation.graders.runtime import NetworkPolicyGrader, RewardWellFormedGrader, StateContractGrader
from openenv.validation.manifest import ExecutionDeclaration, NetworkPolicy, ResourceDeclaration
from openenv.validation.providers import (
    ProviderError,
    RunningSubject,
    StartupError,
    UnsupportedCapability,
    ValidationProvider,
)
from openenv.validation.providers.docker import DockerRunningSubject, DockerValidationProvider
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import LaunchSpec, RuntimePlan
from openenv.validation.types import CheckStatus

_PLAN = RuntimePlan.model_validate(
    {"plan_schema_version": "1", "reset": {"episode_id": "a", "seed": 1}, "actions": [{"message": "hi"}]}
)
_DOCKERFILE = """
    FROM {image}
    COPY . /app/copied
    """
_MANIFEST = "name: echo_env\n"


def launch_spec(image: str, mode: str = "no-network", **changes: Any) -> LaunchSpec:
    """Return what is started."""
    resources = {"cpu": 1, "memory_mb": 512, "disk_mb": 64, "episode_timeout_s": 60, **changes}
    hosts = ["example.org"] if mode == "allowlist" else []
    return LaunchSpec(
        image_ref=image,
        resources=ResourceDeclaration(**resources),
        network=NetworkPolicy(mode=mode, allowed_hosts=hosts),
        run_id="run-1",
        startup_timeout_s=120,
    )


@pytest.fixture
def provider() -> DockerValidationProvider:
    """A provider whose helper is an image that is here."""
    return DockerValidationProvider(helper_image=docker_engine.id_of(docker_engine.python_image()))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose image is that of the environment that echoes."""
    dockerfile = _DOCKERFILE.format(image=docker_engine.image_of("echo_env"))
    return write_files(tmp_path / "echo_env", {"openenv.yaml": _MANIFEST, "Dockerfile": dockerfile})


@pytest.fixture
def subject(provider: DockerValidationProvider, package: Path) -> Iterator[DockerRunningSubject]:
    """The package's running container, without a network."""
    started = provider.start(launch_spec(provider.build(package, ExecutionDeclaration())))
    yield started
    started.stop()


def test_evidence_of_a_container_is_graded(subject: DockerRunningSubject) -> None:
    assert isinstance(subject, RunningSubject)
    evidence = collect_runtime_evidence(subject.base_url, _PLAN, episode_timeout_s=60)
    assert (evidence.failure_reason, len(evidence.exchanges)) == (None, 4)
    graded = validated.subject(evidence, network={"mode": "no-network"})
    for grader in (RewardWellFormedGrader(), StateContractGrader()):
        assert grader.run(graded).status is CheckStatus.PASS
    measured = json.dumps(subject.measure_network())
    graded = validated.subject(evidence, measured_network=measured, network={"mode": "no-network"})
    assert NetworkPolicyGrader().run(graded).status is CheckStatus.PASS, measured


def test_container_does_no_more_than_declared(subject: DockerRunningSubject) -> None:
    host = subject.inspect()["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["NetworkMode"]) == (True, ["ALL"], "none")
    assert (host["NanoCpus"], host["Memory"]) == (10**9, 512 * 2**20)
    assert "Config" not in subject.inspect()


def test_program_runs_beside_the_server(subject: DockerRunningSubject) -> None:
    result = subject.exec(["python3", "-c", "import sys; print('out'); sys.exit('err')"], 60)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "out\n", "err\n")
    with pytest.raises(ProviderError, match=r"^sleep did not end within 0\.1 s"):
        subject.exec(["sleep", "60"], 0.1)
    with pytest.raises(ProviderError, match=r"^yes printed more than"):
        subject.exec(["yes"], 60)


def test_log_is_there_after_the_end(provider: DockerValidationProvider, package: Path) -> None:
    started = provider.start(launch_spec(provider.build(package, ExecutionDeclaration()), "public"))
    started.exec(["sh", "-c", "echo from the container > /proc/1/fd/1"], 60)
    assert started.inspect()["HostConfig"]["NetworkMode"] == "bridge"
    measured = json.dumps(started.measure_network())
    assert NetworkPolicyGrader().run(validated.subject(measured_network=measured)).status is CheckStatus.PASS, measured
    started.stop()
    started.stop()
    assert "from the container" in started.logs()
    with pytest.raises(ValueError, match=r"^max_bytes must be between 1 and 65536$"):
        started.logs(0)


@pytest.mark.parametrize("program", ["import sys; sys.exit(3)", "import time; time.sleep(600)"])
def test_image_whose_server_is_not_healthy_is_an_error(provider: DockerValidationProvider, program: str) -> None:
    command = json.dumps(["python3", "-c", program])
    image = docker_engine.variant_of(docker_engine.python_image(), "unhealthy", f"CMD {command}\n")
    spec = launch_spec(docker_engine.id_of(image)).model_copy(update={"startup_timeout_s": 3.0})
    with pytest.raises(StartupError, match=r"^(Subject did not return HTTP 200 from /health|.* ended: exit status 3)"):
        provider.start(spec)
    assert docker_engine.containers("--filter", f"ancestor={image}") == []


def test_what_is_not_enforced_is_refused(provider: DockerValidationProvider) -> None:
    assert isinstance(provider, ValidationProvider)
    image = f"sha256:{'0' * 64}"
    with pytest.raises(UnsupportedCapability, match=r"^docker-local does not enforce allowlist$"):
        provider.start(launch_spec(image, "allowlist"))
    with pytest.raises(UnsupportedCapability, match=r"^docker-local does not provide GPU isolation$"):
        provider.start(launch_spec(image, gpus=1))


def test_context_that_is_too_large_is_refused(package: Path) -> None:
    with pytest.raises(ProviderError, match="expected at most 10"):
        DockerValidationProvider(max_context_bytes=10).build(package, ExecutionDeclaration())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"build_timeout_s": 0}, "build_timeout_s must be positive and finite"),
        ({"build_timeout_s": float("inf")}, "build_timeout_s must be positive and finite"),
        ({"max_context_bytes": 0}, "max_context_bytes must be positive"),
        ({"helper_image": "python:3.12-slim"}, "helper_image must be pinned by digest"),
    ],
)
def test_options_are_bounded(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        DockerValidationProvider(**options)
