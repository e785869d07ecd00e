"""Public import path of ``EnvClient``; it lives in ``openenv.core.client.client``."""

from collections.abc import Mapping
from typing import Any, TypeVar

from openenv.core.client.client import EnvClient, ResultT
from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.environment_types import generic_arguments
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.base import Provider
from openenv.core.wire.types import dataclass_advice

__all__ = ["ActT", "EnvClient", "EnvClientT", "ObsT", "ResultT", "StateT", "StepResult"]


class HTTPEnvClient(EnvClient[ActT, ObsT, StateT]):
    """``EnvClient`` with the arguments of 0.1, from where ``openenv_core`` has it; others are passed on."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse dataclasses among the parameters.

        Raises:
            ConfigurationError: There is one.
        """
        super().__init_subclass__(**kwargs)
        for advice in filter(None, map(dataclass_advice, generic_arguments(cls, EnvClient) or ())):
            raise ConfigurationError(advice)

    def __init__(
        self,
        base_url: str | None = None,
        request_timeout_s: float | None = 60.0,
        default_headers: Mapping[str, str] | None = None,
        provider: Provider | None = None,
        **options: Any,
    ) -> None:
        renamed = {"message_timeout_s": request_timeout_s, "headers": default_headers}
        super().__init__(base_url, provider=provider, **renamed | options)


EnvClientT = TypeVar("EnvClientT", bound=EnvClient[Any, Any, Any])
