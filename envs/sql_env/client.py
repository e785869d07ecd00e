"""The client of the SQL environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import SqlAction, SqlObservation, SqlState


class SqlEnv(TypedEnvClient[SqlAction, SqlObservation, SqlState]):
    """Answer questions about databases on a server.

    Example::

        async with SqlEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=7)
            print(result.observation.text)
            result = await env.step(QueryAction(sql="SELECT count(*) FROM customers"))
            result = await env.step(SubmitAction(answer=result.observation.rows))
            print(result.reward)
    """
