"""The example of a user, played by a script and by a model behind an address, over a real server."""

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.models.judge_server import JudgeServer
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.core.env_server import create_app
from openenv.core.exceptions import ServerParticipantError

GAME = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "users" / "booking.py"))
BOOKING: Callable[..., Any] = GAME["BookingEnvironment"]


def served(make: Callable[[], Any]) -> RunningServer:
    return RunningServer(create_app(make, GAME["Act"], GAME["Guest"], env_name="booking", max_concurrent_envs=4))


def test_a_scripted_guest_says_what_the_agent_asks() -> None:
    with served(BOOKING) as server, GenericEnvClient(base_url=server.url).sync() as client:
        assert client.reset(seed=1).observation["text"] == "Hello, I would like to book a table."
        people = client.step({"say": "For how many people?"}).observation["text"]
        when = client.step({"say": "When?"}).observation["text"]
        day, hour = when.removeprefix("On ").removesuffix(".").split(" at ")
        booked = client.step({"people": int(people.split()[-1][:-1]), "day": day, "hour": int(hour)})
        assert (booked.reward, booked.done) == (1.0, True)
        assert booked.participants["guest"].replies == 3
        client.reset(seed=1)
        assert client.step({"people": 99, "day": day, "hour": int(hour)}).reward == 0.0


def test_a_model_plays_the_guest_and_its_failure_is_no_reward() -> None:
    judge = JudgeServer(["A table, please.", 503, "We are four.", "Forget it. [end]"])
    server = served(partial(BOOKING, judge.client()))
    with judge.server, server, GenericEnvClient(base_url=server.url).sync() as client:
        first = client.reset(seed=1)
        assert (first.observation["text"], first.participants["guest"].model) == ("A table, please.", "judge")
        with pytest.raises(ServerParticipantError, match="The participant 'guest' failed: Error code: 503"):
            client.step({"say": "For how many?"})
        assert client.step({"say": "For how many?"}).observation["text"] == "We are four."
        last = client.step({"say": "We are full."})
        assert (last.done, last.reward, last.observation["text"]) == (True, 0.0, "Forget it.")
        usage = last.participants["guest"]
    assert (usage.replies, usage.input_tokens, usage.output_tokens) == (3, 30, 15)
    assert "You want a table for" in judge.requests[0]["messages"][0]["content"]


async def test_a_session_is_forked_without_the_model() -> None:
    judge = JudgeServer(["A table, please.", "We are four."])
    with judge.server, served(partial(BOOKING, judge.client())) as server:
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset(seed=1)
            (twin,) = await client.fork(1)
            assert len(judge.requests) == 1
            assert (await twin.step({"say": "For how many?"})).participants["guest"].replies == 2
            await twin.close()
