"""The client of the code feedback environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import CodeAction, CodeFeedbackState, CodeObservation


class CodeFeedbackEnv(TypedEnvClient[CodeAction, CodeObservation, CodeFeedbackState]):
    """Hand in code on a server.

    Example::

        async with CodeFeedbackEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7)
            print(result.observation.prompt)
            result = await env.step(CodeAction(code="def twice(x): return 2 * x", function_name="twice"))
            print(result.observation.text, result.reward)
    """
