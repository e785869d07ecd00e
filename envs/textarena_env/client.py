"""The client of the TextArena environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import TextArenaAction, TextArenaObservation, TextArenaState


class TextArenaEnv(TypedEnvClient[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Play the games of TextArena on a server.

    Example::

        async with TextArenaEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7, env_id="Wordle-v0")
            result = await env.step(TextArenaAction(message="[stare]"))
            print(result.observation.messages[-1].content, result.reward)
    """
