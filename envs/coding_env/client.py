"""The client of the coding environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import CodeAction, CodeObservation, CodeState


class CodingEnv(TypedEnvClient[CodeAction, CodeObservation, CodeState]):
    """Run Python on a server.

    Example::

        async with CodingEnv(base_url="http://localhost:8000") as env:
            await env.reset()
            await env.step(CodeAction(code="x = 6 * 7"))
            result = await env.step(CodeAction(code="print(x)"))
            print(result.observation.stdout, result.reward)
    """
