"""Without Docker a package's server starts in a confined process, and gives the same evidence."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import validated
from tests.support.environment_folders import write_files

from openenv.validation.graders.runtime import (
    NetworkPolicyGrader,
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.manifest import ExecutionDeclaration, NetworkPolicy, ResourceDeclaration
from openenv.validation.providers import (
    ProviderError,
    RunningSubject,
    StartupError,
    UnsupportedCapability,
    ValidationProvider,
)
from openenv.validation.providers.local_process import LocalProcessSubject, LocalProcessValidationProvider
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import LaunchSpec, RuntimePlan
from openenv.validation.types import CheckStatus

_PLAN = RuntimePlan.model_validate(
    {"plan_schema_version": "1", "reset": {"episode_id": "a", "seed": 1}, "actions": [{"amount": 1}, {"amount": 2}]}
)
_ENVIRONMENT = """
    from openenv import Action, Environment, Observation, State

    class Add(Action):
        amount: int

    class Total(Observation):
        total: int

    class CountingEnvironment(Environment[Add, Total, State]):
        def __init__(self):
            super().__init__()
            self._state = State()

        def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
            self._state = State(episode_id=episode_id)
            return Total(total=0)

        def step(self, action: Add) -> Total:
            self._state.step_count += 1
            return Total(total=action.amount, reward=0.5)

        @property
        def state(self) -> State:
            return self._state
    """
_FILES = {
    "openenv.yaml": "name: counting_env\nenvironment: environment:CountingEnvironment\n",
    "__init__.py": "",
    "environment.py": _ENVIRONMENT,
}


def launch_spec(image: str, mode: str = "no-network", *, gpus: int = 0, startup_timeout_s: float = 120) -> LaunchSpec:
    """Return what is started."""
    return LaunchSpec(
        image_ref=image,
        resources=ResourceDeclaration(cpu=1, memory_mb=512, disk_mb=64, episode_timeout_s=60, gpus=gpus),
        network=NetworkPolicy(mode=mode, allowed_hosts=["example.org"] if mode == "allowlist" else []),
        run_id="run-1",
        startup_timeout_s=startup_timeout_s,
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that counts."""
    return write_files(tmp_path / "counting_env", _FILES)


@pytest.fixture
def subject(package: Path) -> Iterator[LocalProcessSubject]:
    """Its running server, without a network."""
    provider = LocalProcessValidationProvider()
    started = provider.start(launch_spec(provider.build(package, ExecutionDeclaration())))
    yield started
    started.stop()


@pytest.mark.needs("sandbox")
def test_evidence_of_a_process_is_graded(subject: LocalProcessSubject) -> None:
    assert isinstance(subject, RunningSubject)
    evidence = collect_runtime_evidence(subject.base_url, _PLAN, episode_timeout_s=60)
    measured = json.dumps(subject.measure_network())
    graded = validated.subject(evidence, measured_network=measured, network={"mode": "no-network"})
    for grader in (
        RewardWellFormedGrader(),
        ObservationSchemaGrader(),
        StateContractGrader(),
        NetworkPolicyGrader(),
    ):
        result = grader.run(graded)
        assert result.status is CheckStatus.PASS, (result, measured)


@pytest.mark.needs("sandbox")
def test_subject_says_what_is_enforced(subject: LocalProcessSubject) -> None:
    described = subject.inspect()
    assert (described["confined"], described["network_mode"], described["disk_bytes"]) == (True, "none", 64 * 2**20)
    assert (described["cpu_enforced"], described["memory_enforced"]) == (False, False)
    with pytest.raises(UnsupportedCapability):
        subject.exec(["true"], 1)
    with pytest.raises(ValueError, match=r"^max_bytes must be between 1 and 65536$"):
        subject.logs(65537)


@pytest.mark.level("process")
def test_server_that_ends_is_an_error_with_its_reason(package: Path) -> None:
    (package / "environment.py").write_text("raise RuntimeError('no luck')")
    provider = LocalProcessValidationProvider()
    with pytest.raises(StartupError, match="no luck"):
        provider.start(launch_spec(provider.build(package, ExecutionDeclaration()), "public"))


@pytest.mark.level("process")
def test_server_that_is_not_ready_in_time_is_an_error(package: Path) -> None:
    provider = LocalProcessValidationProvider()
    digest = provider.build(package, ExecutionDeclaration())
    with pytest.raises(StartupError, match=r"^Subject did not return HTTP 200 from /health before its deadline"):
        provider.start(launch_spec(digest, "public", startup_timeout_s=0.01))


def test_what_is_not_enforced_is_refused() -> None:
    provider: Any = LocalProcessValidationProvider()
    assert isinstance(provider, ValidationProvider)
    image = f"sha256:{'0' * 64}"
    with pytest.raises(UnsupportedCapability, match=r"^local-process does not enforce allowlist$"):
        provider.start(launch_spec(image, "allowlist"))
    with pytest.raises(UnsupportedCapability, match=r"^local-process does not provide GPU isolation$"):
        provider.start(launch_spec(image, "public", gpus=1))
    with pytest.raises(ProviderError, match="has not built sha256:000"):
        provider.start(launch_spec(image, "public"))


def test_environment_with_sandboxes_of_its_own_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.validation.providers.local_process.can_confine_servers", lambda: True)
    provider = LocalProcessValidationProvider()
    write_files(package, {"server/Dockerfile": 'FROM x\nLABEL org.openenv.nested-sandbox="true"\n'})
    with pytest.raises(UnsupportedCapability, match=r"makes sandboxes of its own; use docker-local$"):
        provider.start(launch_spec(provider.build(package, ExecutionDeclaration())))


def test_machine_without_confinement_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.validation.providers.local_process.can_confine_servers", lambda: False)
    provider = LocalProcessValidationProvider()
    assert (provider.capabilities, provider.supported_network_modes) == (frozenset(), frozenset({"public"}))
    with pytest.raises(UnsupportedCapability, match=r"^local-process does not enforce no-network$"):
        provider.start(launch_spec(f"sha256:{'0' * 64}"))
