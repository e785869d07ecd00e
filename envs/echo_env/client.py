"""The client of the echo environment."""

from openenv.core.env_server.types import State
from openenv.core.typed_client import TypedEnvClient

from .models import EchoAction, EchoObservation


class EchoEnv(TypedEnvClient[EchoAction, EchoObservation, State]):
    """Talk to an echo server.

    Example::

        async with EchoEnv(base_url="http://localhost:8000") as env:
            await env.reset()
            result = await env.step(EchoAction(message="Hello, World!"))
            print(result.observation.echoed_message, result.reward)  # Hello, World! 1.3
    """
