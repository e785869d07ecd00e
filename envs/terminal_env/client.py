"""The client of the terminal environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import TerminalAction, TerminalObservation, TerminalState


class TerminalEnv(TypedEnvClient[TerminalAction, TerminalObservation, TerminalState]):
    """Use a shell on a server.

    Example::

        async with TerminalEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7)
            print(result.observation.prompt)
            result = await env.step(RunAction(command="ls -R"))
            print(result.observation.output)
            result = await env.step(SubmitAction())
            print(result.reward, result.observation.checks)
    """
