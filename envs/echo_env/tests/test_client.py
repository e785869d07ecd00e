import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from echo_env import CallToolAction, EchoAction, EchoEnv, EchoObservation, ListToolsAction
from openenv.core.exceptions import RequestRejectedError
from openenv.core.generic_client import GenericEnvClient

REPOSITORY = Path(__file__).parents[3]

README_ASYNC = """
import asyncio
from echo_env import EchoAction, EchoEnv

async def main():
    # Connect to a running Space (async context manager)
    async with EchoEnv(base_url="https://openenv-echo-env.hf.space") as client:
        # Reset the environment
        result = await client.reset()
        print(result.observation.echoed_message)  # "Echo environment ready!"

        # Send messages
        result = await client.step(EchoAction(message="Hello, World!"))
        print(result.observation.echoed_message)  # "Hello, World!"
        print(result.reward)  # 1.3 (based on message length)

asyncio.run(main())
"""

README_SYNC = """
from echo_env import EchoAction, EchoEnv

# Use .sync() for synchronous context manager
with EchoEnv(base_url="https://openenv-echo-env.hf.space").sync() as client:
    result = client.reset()
    result = client.step(EchoAction(message="Hello, World!"))
    print(result.observation.echoed_message)
"""

TUTORIAL = """
import asyncio
from echo_env import EchoAction, EchoEnv
async def main():
    # Connect to the public HF Space
    async with EchoEnv(
        base_url="https://openenv-echo-env.hf.space"
    ) as env:
        # Reset starts a new episode
        result = await env.reset()
        print(f"Reset: {result.observation.echoed_message}")
        # Step sends an action, gets an observation + reward + done flag
        result = await env.step(
            EchoAction(message="Hello, OpenEnv!")
        )
        print(f"Echoed: '{result.observation.echoed_message}'")
        print(f"Reward: {result.reward}")
asyncio.run(main())
"""

# The loop of the TRL guide's rollout function, where a bare client is used without `.sync()` or `with`.
TRL_GUIDE = """
from envs.echo_env import EchoEnv, EchoAction

client = EchoEnv(base_url="https://openenv-echo-env.hf.space")
completions_text = ["a", "bb", "ccc"]

client.reset()
env_rewards = []
for msg in completions_text:
    env_result = client.step(EchoAction(message=msg))
    env_rewards.append(env_result.reward)
print(env_rewards)
"""


@pytest.mark.parametrize(
    ("snippet", "printed"),
    [
        pytest.param(README_ASYNC, "Echo environment ready!\nHello, World!\n1.3\n", id="readme-async"),
        pytest.param(README_SYNC, "Hello, World!\n", id="readme-sync"),
        pytest.param(
            TUTORIAL, "Reset: Echo environment ready!\nEchoed: 'Hello, OpenEnv!'\nReward: 1.5\n", id="tutorial"
        ),
        pytest.param(TRL_GUIDE, "[0.1, 0.2, 0.3]\n", id="trl-guide"),
    ],
)
def test_published_snippets_run_as_written(snippet: str, printed: str, echo_url: str) -> None:
    program = snippet.replace("https://openenv-echo-env.hf.space", echo_url)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


async def test_the_client_takes_messages_and_tool_calls_in_one_session(echo_url: str) -> None:
    async with EchoEnv(base_url=echo_url) as env:
        greeting = (await env.reset(episode_id="mixed")).observation
        assert isinstance(greeting, EchoObservation)
        assert (await env.step(EchoAction(message="abc"))).observation.message_length == 3
        assert await env.call_tool("echo_message", message="hi") == "hi"
        assert await env.call_tool("echo_with_length", message="hi") == {"message": "hi", "length": 2}
        result = await env.step(CallToolAction(tool_name="echo_message", arguments={"message": "hi"}))
        assert (result.observation.result, result.observation.error, result.reward) == ("hi", None, None)
        listed = (await env.step(ListToolsAction())).observation.tools
        assert [one.name for one in listed] == ["echo_message", "echo_with_length"]
        assert await env.list_tools() == [*listed, await env.get_tool("echo")]  # which the action makes
        state = await env.state()
        assert (state.episode_id, state.step_count) == ("mixed", 4)


def test_the_tools_block_as_everything_else_does(echo_url: str) -> None:
    with EchoEnv(base_url=echo_url).sync() as env:
        env.reset()
        assert env.call_tool("echo_message", message="hi") == "hi"
    bare: Any = EchoEnv(base_url=echo_url)
    assert bare.call_tool("echo_message", message="hi") == "hi"
    assert bare.has_tool("echo_with_length")
    bare.close()


async def test_sessions_at_once_do_not_mix(echo_url: str) -> None:
    async def talk(number: int) -> list[str]:
        async with EchoEnv(base_url=echo_url) as env:
            await env.reset(episode_id=f"episode-{number}")
            said = []
            for turn in range(5):
                result = await env.step(EchoAction(message=f"{number}/{turn}"))
                said.append(result.observation.echoed_message)
            state = await env.state()
            assert (state.episode_id, state.step_count) == (f"episode-{number}", 5)
            return said

    said = await asyncio.gather(*(talk(number) for number in range(20)))
    assert said == [[f"{number}/{turn}" for turn in range(5)] for number in range(20)]


async def test_it_answers_before_any_reset(echo_url: str) -> None:
    async with EchoEnv(base_url=echo_url) as env:
        result = await env.step(EchoAction(message="hello"))
        assert (result.observation.echoed_message, result.reward) == ("hello", 0.5)


async def test_a_refused_action_leaves_the_episode_as_it_was(echo_url: str) -> None:
    async with GenericEnvClient(base_url=echo_url) as env:
        await env.reset()
        await env.step({"message": "one"})
        for wrong in ({}, {"message": 7}, {"message": "a", "volume": 11}, {"word": "a"}):
            with pytest.raises(RequestRejectedError):
                await env.step(wrong)
        result = await env.step({"message": "two"})
        assert result.observation["metadata"] == {"original_message": "two", "step": 2}
