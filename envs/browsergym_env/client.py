"""The client of the BrowserGym environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import BrowserGymAction, BrowserGymObservation, BrowserGymState


class BrowserGymEnv(TypedEnvClient[BrowserGymAction, BrowserGymObservation, BrowserGymState]):
    """Use a browser on a server.

    Example::

        async with BrowserGymEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7, task_name="enter-text")
            print(result.observation.goal, result.observation.axtree_txt)
            result = await env.step(BrowserGymAction.call("fill", "14", "O'Connor"))
    """
