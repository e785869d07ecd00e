"""The client of the Wordle environment."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.typed_client import TypedEnvClient

from .models import WordleAction, WordleObservation, WordleState


class WordleEnv(TypedEnvClient[WordleAction, WordleObservation, WordleState]):
    """Play Wordle on a server.

    Attributes:
        trajectory: The results of the episode's steps so far; a reset empties it.

    Example::

        async with WordleEnv(base_url="http://localhost:8000") as env:
            await env.reset(seed=7)
            result = await env.step(WordleAction(word="stare"))
            print(result.observation.feedback, result.reward)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trajectory: list[StepResult[WordleObservation]] = []

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[WordleObservation]:
        result = super()._parse_result(payload)
        # Only the observation of a reset has no guesses: a refused guess is an error, not an observation.
        if result.observation.guesses:
            self.trajectory.append(result)
        else:
            self.trajectory = []  # a new list: further sessions of this client begin as its copies
        return result
