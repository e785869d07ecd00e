"""Section ``vllm`` of a run's settings: vLLM generates the rollouts instead of the trained model itself."""

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["VllmSettings"]

_OF_SERVER = ("server_base_url", "server_timeout", "group_port")
_OF_COLOCATE = (
    "gpu_memory_utilization",
    "max_model_length",
    "tensor_parallel_size",
    "model_impl",
    "enable_sleep_mode",
)


class VllmSettings(BaseModel):
    """Let vLLM write the answers in training (https://docs.vllm.ai).

    The names are those of TRL's ``GRPOConfig`` without ``vllm_``; what is left out is as TRL has it. A setting of the
    other mode is an error.

    Example:
        >>> VllmSettings(gpu_memory_utilization=0.5).arguments()["vllm_gpu_memory_utilization"]
        0.5
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["colocate", "server"] = Field(
        default="colocate", description="vLLM in the training's own process, or a server of it elsewhere"
    )

    server_base_url: str | None = Field(default=None, description="server: its address, as http://localhost:8000")
    server_timeout: float | None = Field(default=None, gt=0, description="server: seconds to wait until it is up")
    group_port: int | None = Field(default=None, ge=1, le=65535, description="server: port that weights go through")

    gpu_memory_utilization: float | None = Field(
        default=None, gt=0, le=1, description="colocate: share of the GPU's memory that vLLM takes"
    )
    max_model_length: int | None = Field(
        default=None, ge=16, description="colocate: longest context of vLLM, in tokens; default: the model's context"
    )
    tensor_parallel_size: int | None = Field(
        default=None, ge=1, description="colocate: GPUs that vLLM splits the model between; a run has one"
    )
    model_impl: Literal["vllm", "transformers"] | None = Field(
        default=None, description="colocate: whose implementation of the model vLLM takes"
    )
    enable_sleep_mode: bool | None = Field(
        default=None, description="colocate: whether vLLM gives its memory back after each turn"
    )

    importance_sampling_correction: bool = Field(
        default=True, description="weigh what vLLM wrote by how probable the trained model finds it"
    )
    importance_sampling_mode: Literal["sequence_mask", "sequence_truncate", "token_mask", "token_truncate"] = Field(
        default="sequence_mask", description="what has a weight, and whether a large one is cut or leaves it out"
    )
    importance_sampling_clip_max: float = Field(default=3.0, gt=0, description="which weights are large")

    @field_validator("server_base_url")
    @classmethod
    def _address_is_a_url(cls, address: str | None) -> str | None:
        if address is not None and not _is_http(address):
            raise ValueError("expected an address as http://localhost:8000")
        return address

    @model_validator(mode="after")
    def _settings_are_of_the_mode(self) -> "VllmSettings":
        other = _OF_COLOCATE if self.mode == "server" else _OF_SERVER
        foreign = [name for name in other if getattr(self, name) is not None]
        if foreign:
            raise ValueError(
                f"{foreign[0]} is not for mode {self.mode}; "
                + ("give it to vllm serve instead" if self.mode == "server" else "set mode: server, or leave it out")
            )
        return self

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> "VllmSettings":
        if self.mode == "server" and self.server_base_url is None:
            raise ValueError("mode server needs server_base_url, the address of vllm serve")
        if (self.tensor_parallel_size or 1) > 1:
            raise ValueError(
                f"a run has one process, so tensor_parallel_size must be 1, not {self.tensor_parallel_size}; for more "
                "GPUs set mode: server and start vllm serve with --tensor-parallel-size"
            )
        return self

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of TRL's ``GRPOConfig``."""
        set_here = {f"vllm_{name}": value for name, value in self.model_dump().items() if value is not None}
        return {"use_vllm": True, **set_here}


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
