"""A vector of 1,024 Wordle sessions gives what as many separate legacy sessions give: 25,000 scripted steps."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from pydantic_core import from_json, to_json
from tests.support.servers import ServerProcess
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import State
from websockets.uri import parse_uri

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.results import StepResult
from wordle_env.player import make_player
from wordle_env.server.wordle_environment import WordleEnvironment

pytestmark = pytest.mark.timeout(300)

SESSIONS = 1024
STEPS_EACH = 25
SEEDS = 24
# Legacy sessions at the same time: each has a socket, and a process may have few.
TOGETHER = 128


@dataclass
class Episode:
    """A seed, and the guesses that a player makes of it."""

    seed: int
    guesses: list[str]


def write_script(seed: int) -> Episode:
    """Have a player play an episode."""
    environment, player, guesses = WordleEnvironment(), make_player(seed), []
    observation = environment.reset(seed=seed)
    while not observation.done:
        action = player(observation)
        guesses.append(action.word)
        observation = environment.step(action)
    return Episode(seed, guesses)


def requests_of(session: int, scripts: list[Episode]) -> list[tuple[str, Any]]:
    """What a session asks for: resets with seeds and steps with words, in an order of its own."""
    requests: list[tuple[str, Any]] = []
    steps, episode = 0, session
    while steps < STEPS_EACH:
        script = scripts[episode % SEEDS]
        guesses = script.guesses[: STEPS_EACH - steps]
        requests += [("reset", script.seed), *(("step", word) for word in guesses)]
        steps += len(guesses)
        episode += 1 + session % 5
    return requests


class Digest:
    """What a session has seen, in short."""

    def __init__(self) -> None:
        self._seen = sha256()
        self.steps = 0

    def note(self, kind: str, data: dict[str, Any]) -> None:
        self.steps += kind == "step"
        self._seen.update(to_json(data))

    def __str__(self) -> str:
        return self._seen.hexdigest()


async def play_vector(url: str, sessions: list[list[tuple[str, Any]]]) -> list[Digest]:
    digests = [Digest() for _ in sessions]
    client = GenericEnvClient(base_url=url)
    async with await client.vector(len(sessions)) as vector:
        for turn in range(max(map(len, sessions))):
            now = [requests[turn] if turn < len(requests) else None for requests in sessions]
            resets = [slot for slot, request in enumerate(now) if request and request[0] == "reset"]
            actions = [{"word": request[1]} if request and request[0] == "step" else None for request in now]
            results = await vector.step(actions)
            for slot, result in enumerate(await vector.reset(slots=resets, seeds=[now[slot][1] for slot in resets])):  # type: ignore[index]
                results[slot] = result or results[slot]
            for request, result, digest in zip(now, results, digests, strict=True):
                if request is not None:
                    assert isinstance(result, StepResult)
                    digest.note(request[0], written(result))
    await client.close()
    return digests


def written(result: StepResult[dict[str, Any]]) -> dict[str, Any]:
    """The result as it was on the wire."""
    data = {"observation": result.observation, "reward": result.reward, "done": result.done}
    return data if result.metadata is None else {**data, "metadata": result.metadata}


async def play_legacy(url: str, sessions: list[list[tuple[str, Any]]]) -> list[Digest]:
    digests: list[Digest] = []
    for first in range(0, len(sessions), TOGETHER):
        digests += await asyncio.gather(
            *(play_session(url, requests) for requests in sessions[first : first + TOGETHER])
        )
    return digests


async def play_session(url: str, requests: list[tuple[str, Any]]) -> Digest:
    """Play a legacy session, asking for everything at once; it is answered in order."""
    protocol = ClientProtocol(parse_uri(url.replace("http", "ws", 1) + "/ws"), max_size=None)
    reader, writer = await asyncio.open_connection("127.0.0.1", protocol.uri.port)
    protocol.send_request(protocol.connect())
    writer.writelines(protocol.data_to_send())
    digest, asked = Digest(), iter(requests)
    waiting = len(requests)
    while waiting:
        protocol.receive_data(await reader.read(1 << 18))
        for event in protocol.events_received():
            if isinstance(event, Frame):
                message = from_json(bytes(event.data))
                assert message["type"] == "observation"
                digest.note(next(asked)[0], message["data"])
                waiting -= 1
            else:  # the handshake is over
                assert protocol.state is State.OPEN
                send_all(protocol, requests)
                writer.writelines(protocol.data_to_send())
    writer.close()
    await writer.wait_closed()
    return digest


def send_all(protocol: ClientProtocol, requests: list[tuple[str, Any]]) -> None:
    for kind, value in requests:
        data = {"seed" if kind == "reset" else "word": value}
        protocol.send_text(to_json({"type": kind, "data": data}))


@pytest.mark.level("service")
async def test_1024_sessions_play_25_000_steps_as_separate_legacy_sessions_do() -> None:
    scripts = [write_script(seed) for seed in range(SEEDS)]
    sessions = [requests_of(session, scripts) for session in range(SESSIONS)]
    with ServerProcess("wordle_server.py", str(SESSIONS)) as server:
        legacy = await play_legacy(server.url, sessions)
        vector = await play_vector(server.url, sessions)
    assert sum(digest.steps for digest in vector) == SESSIONS * STEPS_EACH > 25_000
    assert list(map(str, vector)) == list(map(str, legacy))
    assert len(set(map(str, vector))) > SEEDS  # they did not all play the same
