"""The client of the reasoning-gym environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import AnswerAction, ReasoningObservation, ReasoningState


class ReasoningGymEnv(TypedEnvClient[AnswerAction, ReasoningObservation, ReasoningState]):
    """Answer questions of reasoning-gym's datasets on a server.

    Example::

        async with ReasoningGymEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7, dataset="leg_counting")
            print(result.observation.text)
            result = await env.step(AnswerAction(answer="22"))
            print(result.reward, result.metadata["answer"])
    """
