"""Drive a counter server with the clients of whichever package the interpreter has, and print what happened as JSON.

Each scenario is a function of the server's address that returns something JSON can hold.
"""

import argparse
import asyncio
import json
import traceback
from collections.abc import Callable
from typing import Any

from tests.interop.programs.environment import UNLUCKY, Add, CounterEnv

from openenv.core import GenericAction, GenericEnvClient


def play_async(url: str) -> Any:
    """One episode with the async client."""
    return asyncio.run(_play_async(url))


async def _play_async(url: str) -> list[Any]:
    async with CounterEnv(base_url=url) as env:
        seen = [shown(await env.reset(seed=7, episode_id="first", start=2, flavour="plain"))]
        seen.append(shown(await env.step(Add(number=3))))
        seen.append((await env.state()).model_dump())
        seen.append(shown(await env.step(Add(number=5))))
        return seen


def play_sync(url: str) -> Any:
    """One episode with the ``.sync()`` facade."""
    with CounterEnv(base_url=url).sync() as env:
        seen = [shown(env.reset(seed=7, episode_id="first", start=2, flavour="plain"))]
        seen.append(shown(env.step(Add(number=3))))
        seen.append(env.state().model_dump())
        seen.append(shown(env.step(Add(number=5))))
        return seen


def play_bare(url: str) -> Any:
    """One episode with a client that is neither awaited nor wrapped."""
    env: Any = CounterEnv(base_url=url)
    seen = [shown(env.reset(seed=7, episode_id="first", start=2, flavour="plain"))]
    seen.append(shown(env.step(Add(number=3))))
    seen.append(env.state().model_dump())
    seen.append(shown(env.step(Add(number=5))))
    env.close()
    return seen


def play_generic(url: str) -> Any:
    """One episode with dicts instead of types, and each form of action that the generic client takes."""
    with GenericEnvClient(base_url=url).sync() as env:
        start = env.reset(start=1)
        first = env.step({"number": 2})
        second = env.step(GenericAction(number=3))
        return [start.observation, first.observation, second.observation, second.reward, env.state()]


def break_rules(url: str) -> Any:
    """Requests that fail, each followed by one that works in the same session."""
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset()
        return [
            error_of(lambda: env.step({"number": "many"})),
            env.step({"number": 1}).observation["total"],
            error_of(lambda: env.step({"nmber": 1})),
            env.step({"number": 1}).observation["total"],
            error_of(lambda: env.step({"number": UNLUCKY})),
            env.step({"number": 1}).observation["total"],
            env.state()["step_count"],
        ]


def send_much(url: str) -> Any:
    """An observation of three megabytes."""
    with CounterEnv(base_url=url).sync() as env:
        env.reset()
        return len(env.step(Add(number=1, letters=3_000_000)).observation.text)


def open_siblings(url: str) -> Any:
    """Two sessions of one client, which share nothing."""
    return asyncio.run(_open_siblings(url))


async def _open_siblings(url: str) -> list[int]:
    async with CounterEnv(base_url=url) as env:
        sibling = await env.new_session()
        await env.reset(start=1)
        await sibling.reset(start=5)
        await env.step(Add(number=1))
        return [(await env.state()).total, (await sibling.state()).total]


def fill_server(url: str) -> Any:
    """As many sessions as the server has (four), one more, and one in the place of one that ended."""
    clients = [CounterEnv(base_url=url).sync() for _ in range(4)]
    totals = [client.reset(start=number).observation.total for number, client in enumerate(clients)]
    refused = error_of(CounterEnv(base_url=url).sync().reset)
    clients.pop().close()
    totals.append(_reset_when_free(url))
    for client in clients:
        client.close()
    return [totals, refused]


def _reset_when_free(url: str) -> int:
    # A server may still be closing the environment of the session that ended.
    for _ in range(200):
        with CounterEnv(base_url=url).sync() as client:
            try:
                return int(client.reset(start=99).observation.total)
            except RuntimeError:
                continue
    raise TimeoutError("the place of a session that had ended was never given away")


def step_first(url: str) -> Any:
    """A step before any reset."""
    with GenericEnvClient(base_url=url).sync() as env:
        return [error_of(lambda: env.step({"number": 1})), env.reset(start=3).observation["total"]]


def call_nobody(url: str) -> Any:
    """A connection to a port where nothing listens."""
    return error_of(CounterEnv(base_url="http://127.0.0.1:9").sync().reset)


def shown(result: Any) -> dict[str, Any]:
    """Return a result as plain values."""
    return {"observation": result.observation.model_dump(), "reward": result.reward, "done": result.done}


def error_of(call: Callable[[], Any]) -> list[str]:
    """Return which of the promised kinds of error a call raises, and its message."""
    try:
        call()
    except (RuntimeError, ConnectionError) as error:
        kind = ConnectionError if isinstance(error, ConnectionError) else RuntimeError
        return [kind.__name__, str(error)]
    return ["no error", ""]


SCENARIOS = (
    fill_server,  # first, while nobody else holds a session
    play_async,
    play_sync,
    play_bare,
    play_generic,
    break_rules,
    send_much,
    open_siblings,
    step_first,
    call_nobody,
)


def outcome(scenario: Callable[[str], Any], url: str) -> dict[str, Any]:
    """Run a scenario; one that fails does not keep the others from running."""
    try:
        return {"saw": scenario(url)}
    except Exception:  # noqa: BLE001  # reported, and asserted on by the test
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    url = parser.parse_args().url
    print(json.dumps({scenario.__name__: outcome(scenario, url) for scenario in SCENARIOS}))  # noqa: T201
