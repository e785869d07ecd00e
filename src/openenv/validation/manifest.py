"""Normalized manifest of a package: its declarations that the checks compare with what they measure."""

from collections.abc import Iterator
from math import isfinite
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from openenv.validation.types import SignatureKind


class ManifestError(Exception):
    """Manifest that can't be normalized: a failed ``static.manifest``, and no fault of the validation.

    Attributes:
        errors: A sentence for each fault.
        remediation: Remedy for all of them.

    Example:
        >>> str(ManifestError(["reward: missing", "types: missing"]))
        'reward: missing; types: missing'
    """

    def __init__(self, errors: list[str], *, remediation: str | None = None) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors
        self.remediation = remediation


class _Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RewardDeclaration(_Declaration):
    """Declaration of an episode's reward.

    Attributes:
        range: The lowest and the highest reward.
        oracle_tolerance: Distance from the highest reward that an oracle may have.
        floor_margin: Distance from the highest reward that a player without skill must keep.
        variance_tolerance: Highest variance of a judged reward.

    Example:
        >>> RewardDeclaration(floor_margin=0.5).range
        (0.0, 1.0)
    """

    range: tuple[float, float] = (0.0, 1.0)
    oracle_tolerance: float = Field(default=0.0, ge=0)
    floor_margin: float = Field(ge=0)
    variance_tolerance: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if not self.range[0] < self.range[1]:
            raise ValueError(f"reward range must be strictly increasing, got {self.range}")
        return self


class JudgePin(_Declaration):
    """Model that judges, with its version.

    Attributes:
        model: The model's name.
        version: Its version.
        params: Parameters of its requests.

    Example:
        >>> JudgePin(model="judge", version="2026-01").params
        {}
    """

    model: str
    version: str
    params: dict[str, Any] = Field(default_factory=dict)


class OracleDeclaration(_Declaration):
    """Oracle that solves every task.

    Attributes:
        form: ``script`` runs, ``injected_state`` is a state that solves the task.
        location: The file.

    Example:
        >>> OracleDeclaration(form="script", location="validation/oracle.sh").form
        'script'
    """

    form: Literal["injected_state", "script"]
    location: str


class VerifierBinding(_Declaration):
    """Origin of the reward.

    Attributes:
        kind: ``reward_channel`` is the environment's own reward, ``script`` is a program.
        entry: The program.

    Example:
        >>> VerifierBinding(kind="reward_channel").entry is None
        True
    """

    kind: Literal["reward_channel", "script"]
    entry: str | None = None

    @model_validator(mode="after")
    def _check_entry(self) -> Self:
        if self.kind == "script" and not self.entry:
            raise ValueError("verifier.entry is required when verifier.kind is 'script'")
        if self.kind != "script" and self.entry is not None:
            raise ValueError("verifier.entry is only valid when verifier.kind is 'script'")
        return self


class ResourceDeclaration(_Declaration):
    """Resources that an episode needs.

    Attributes:
        cpu: Number of CPUs.
        memory_mb: Memory in MB.
        disk_mb: Disk in MB.
        episode_timeout_s: Seconds that an episode may take.
        gpus: Number of GPUs.
        gpu_types: Names of GPUs, any of which will do.

    Example:
        >>> ResourceDeclaration(cpu=1, memory_mb=512, disk_mb=256, episode_timeout_s=60).gpus
        0
    """

    cpu: float = Field(gt=0)
    memory_mb: int = Field(gt=0)
    disk_mb: int = Field(gt=0)
    episode_timeout_s: float = Field(gt=0)
    gpus: int = Field(default=0, ge=0)
    gpu_types: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_gpus(self) -> Self:
        if self.gpu_types and not self.gpus:
            raise ValueError("gpu_types is declared but gpus is 0")
        return self


class NetworkPolicy(_Declaration):
    """Network that an environment needs.

    Attributes:
        mode: ``public``, ``no-network``, or ``allowlist`` of hosts.
        allowed_hosts: The hosts of an allowlist.

    Example:
        >>> NetworkPolicy().mode
        'public'
    """

    mode: Literal["public", "no-network", "allowlist"] = "public"
    allowed_hosts: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_hosts(self) -> Self:
        if self.allowed_hosts and self.mode != "allowlist":
            raise ValueError("allowed_hosts is only valid when mode is 'allowlist'")
        if self.mode == "allowlist" and not self.allowed_hosts:
            raise ValueError("mode 'allowlist' requires at least one allowed host")
        return self


class TaskDistributionPin(_Declaration):
    """Origin of the tasks.

    Attributes:
        generator_seed: Seed of the generator.
        dataset_version: Version of the dataset.
        generator_model: Model that has written the tasks.

    Example:
        >>> TaskDistributionPin(generator_seed=7).dataset_version is None
        True
    """

    generator_seed: int | None = None
    dataset_version: str | None = None
    generator_model: str | None = None


class CapabilitiesSpec(_Declaration):
    """Abilities of an environment, by which graders are selected.

    Attributes:
        oracle: Its oracle.
        verifier: Origin of its reward.
        set_state: Whether a state can be set.
        llm_judged: Whether a language model judges.
        rubric_tree: Whether its rubric has named parts.
        task_api: Whether it lists tasks.
        canaries: File of texts that must appear in no answer.
        declared_tools: Names of its tools.
        declared_task_count: Number of tasks of each split.

    Example:
        >>> CapabilitiesSpec(verifier=VerifierBinding(kind="reward_channel")).task_api
        False
    """

    oracle: OracleDeclaration | None = None
    verifier: VerifierBinding
    set_state: bool = False
    llm_judged: bool = False
    rubric_tree: bool = False
    task_api: bool = False
    canaries: str | None = None
    declared_tools: list[str] = Field(default_factory=list)
    declared_task_count: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_oracle(self) -> Self:
        if self.oracle is not None and self.oracle.form == "injected_state" and not self.set_state:
            raise ValueError("an oracle of the form 'injected_state' requires set_state")
        return self


class TypeSpec(_Declaration):
    """Kinds of an environment, for people who search.

    Attributes:
        tags: The kinds, at least one.

    Example:
        >>> TypeSpec(tags=["game"]).tags
        ['game']
    """

    tags: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)


class NormalizedManifest(_Declaration):
    """Manifest of a package, in the same form for every kind of package.

    Attributes:
        manifest_schema_version: ``1``.
        name: The environment's name.
        version: Its version.
        signature: Kind of the package.
        reward: Declaration of the reward.
        judge: Model that judges, if one does.
        resources: Resources of an episode.
        task_distribution: Origin of the tasks.
        network: Network that it needs.
        capabilities: Its abilities.
        types: Its kinds.

    Example:
        >>> NormalizedManifest.model_fields["reward"].is_required()
        True
    """

    manifest_schema_version: Literal["1"]
    name: str
    version: str | None = None
    signature: SignatureKind
    reward: RewardDeclaration
    judge: JudgePin | None = None
    resources: ResourceDeclaration
    task_distribution: TaskDistributionPin | None = None
    network: NetworkPolicy = Field(default_factory=NetworkPolicy)
    capabilities: CapabilitiesSpec
    types: TypeSpec

    @model_validator(mode="after")
    def _check_judge(self) -> Self:
        if not self.capabilities.llm_judged:
            if self.judge is not None:
                raise ValueError("a judge pin is declared but capabilities.llm_judged is false")
            return self
        if self.judge is None:
            raise ValueError("a judge pin is required when capabilities.llm_judged is true")
        if self.reward.variance_tolerance is None:
            raise ValueError("reward.variance_tolerance is required when capabilities.llm_judged is true")
        return self


class ExecutionDeclaration(_Declaration):
    """Declaration of how an environment is built and run for checks.

    Attributes:
        kind: Protocol of the server.
        probe_path: File of the episode that the checks play.
        dockerfile: The Dockerfile.
        context: Folder of the build.
        agent_boundary: Border between agent and environment.
        requires_credentials: Whether it needs secrets to run.

    Example:
        >>> ExecutionDeclaration().probe_path
        'validation/runtime.json'
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["openenv_ws"] = "openenv_ws"
    probe_path: str = "validation/runtime.json"
    dockerfile: str = "Dockerfile"
    context: str = "."
    agent_boundary: Literal["api"] = "api"
    requires_credentials: StrictBool = False

    @field_validator("probe_path", "dockerfile", "context")
    @classmethod
    def _check_path(cls, value: str) -> str:
        is_odd = not value or any(character in value for character in "\\:\0")
        if is_odd or value.startswith("/") or ".." in PurePosixPath(value).parts:
            raise ValueError("must be a portable package-relative path without '..'")
        return value

    @field_validator("probe_path", "dockerfile")
    @classmethod
    def _check_file(cls, value: str) -> str:
        if value.endswith("/") or PurePosixPath(value).name == "":
            raise ValueError("must name a file")
        return value


class NormalizedManifestV2(NormalizedManifest):
    """Manifest of a package that declares how it is run.

    Attributes:
        manifest_schema_version: ``2``.
        execution: How it is built and run.

    Example:
        >>> sorted(NormalizedManifestV2.model_fields.keys() - NormalizedManifest.model_fields.keys())
        ['execution']
    """

    manifest_schema_version: Literal["2"]  # type: ignore[assignment]  # as published: a subclass with another number
    execution: ExecutionDeclaration

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if not all(map(isfinite, _numbers(self.model_dump()))):
            raise ValueError("schema 2 numeric declarations must be finite")
        return self


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value
