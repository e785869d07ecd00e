"""What every environment must do once it is served: the same episodes for all, and no harm from a wrong action."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from websockets.sync.client import connect

from openenv.adapters.text import ActionText
from openenv.auto.package import EnvironmentPackage
from openenv.core.client_types import StepResult
from openenv.core.exceptions import RequestRejectedError, ServerCapacityError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.train.agents.players import RandomPlayer

from .every_environment import Particulars, each_environment, inherited, own_program, particulars_of, readme_of

Client = SyncEnvClient[Any, Any, Any]
Transcript = list[dict[str, Any]]
"""What a session saw of an episode, as it came over the wire."""

# So that every episode is played by several of the sessions that play at once.
SEEDS = 16


class Playing:
    """An episode of one session, from its first observation.

    Args:
        package: The environment.
        particulars: What is peculiar to it.
        seed: Of the player.
        first: What the reset answered.
    """

    def __init__(
        self, package: EnvironmentPackage, particulars: Particulars, seed: int, first: StepResult[dict[str, Any]]
    ) -> None:
        self._observation_class = package.observation_class()
        self._player: Callable[[Any], Any] = package.make_player(seed) or RandomPlayer(
            ActionText(package.action_class()), seed
        )
        self._varying = particulars.varying
        self._last = first
        self.transcript: Transcript = []
        self.note(first)

    @property
    def over(self) -> bool:
        """Whether the last answer ended the episode."""
        return self._last.done

    def action(self) -> Any:
        """What the player does next."""
        fields = {**self._last.observation, "reward": self._last.reward, "done": self._last.done}
        return self._player(self._observation_class.model_validate(fields))

    def note(self, result: Any) -> None:
        """Note what came of it."""
        assert isinstance(result, StepResult), result
        self._last = result
        kept = {name: value for name, value in result.observation.items() if name not in self._varying}
        self.transcript.append({"observation": kept, "reward": result.reward, "done": result.done})


def play_together(package: EnvironmentPackage, particulars: Particulars, client: Client) -> list[Transcript]:
    """Play in all sessions at once, each slot with the seed of its number."""
    seeds = [slot % SEEDS for slot in range(particulars.sessions)]
    with client.vector(particulars.sessions) as sessions:
        first = sessions.reset(seeds=seeds, tasks=[{"episode_id": str(seed)} for seed in seeds])
        playings = [Playing(package, particulars, seed, result) for seed, result in zip(seeds, first, strict=True)]  # type: ignore[arg-type]  # noted as a result
        for _ in range(particulars.steps):
            actions = [None if playing.over else playing.action() for playing in playings]
            for playing, result in zip(playings, sessions.step(actions), strict=True):
                if not playing.over:
                    playing.note(result)
    return [playing.transcript for playing in playings]


def play_alone(
    package: EnvironmentPackage, particulars: Particulars, client: Client, seed: int, disturb: Callable[[], None]
) -> Transcript:
    """Play one episode in one session, calling ``disturb`` before each step."""
    playing = Playing(package, particulars, seed, client.reset(seed=seed, episode_id=str(seed)))
    while not playing.over and len(playing.transcript) <= particulars.steps:
        disturb()
        playing.note(client.step(playing.action()))
    return playing.transcript


def play_on_the_legacy_wire(package: EnvironmentPackage, particulars: Particulars, url: str, seed: int) -> Transcript:
    """Play one episode as the public package's clients do, frame by frame."""
    with connect(f"{url.replace('http', 'ws', 1)}/ws", proxy=None, max_size=None) as wire:

        def ask(kind: str, data: Mapping[str, Any]) -> StepResult[dict[str, Any]]:
            wire.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(wire.recv(timeout=60))
            assert answer["type"] == "observation", answer
            told = answer["data"]
            return StepResult(told["observation"], told["reward"], told["done"])

        playing = Playing(package, particulars, seed, ask("reset", {"seed": seed, "episode_id": str(seed)}))
        while not playing.over and len(playing.transcript) <= particulars.steps:
            playing.note(ask("step", playing.action().model_dump(mode="json")))
    return playing.transcript


@pytest.fixture(scope="module", params=each_environment())
def package(request: pytest.FixtureRequest) -> EnvironmentPackage:
    """Each environment."""
    found: EnvironmentPackage = request.param
    return found


@pytest.fixture(scope="module")
def particulars(package: EnvironmentPackage) -> Particulars:
    """What is peculiar to it."""
    return particulars_of(package)


@pytest.fixture(scope="module")
def server(package: EnvironmentPackage, particulars: Particulars) -> Iterator[str]:
    """The address of the environment's own server, in a process of its own, which all its tests share."""
    with own_program(package.module, MAX_CONCURRENT_ENVS=str(particulars.sessions + 8)) as url:
        yield url


@pytest.fixture(scope="module")
def together(package: EnvironmentPackage, particulars: Particulars, server: str) -> list[Transcript]:
    """What every session saw when all played at once."""
    with GenericEnvClient(base_url=server).sync() as client:
        return play_together(package, particulars, client)


def test_the_readme_shows_what_happens(package: EnvironmentPackage, server: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", readme_of(package), re.DOTALL)
    assert blocks
    for program, printed in blocks:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("http://localhost:8000", server)],
            env=inherited(PYTHONIOENCODING="utf-8"),
            capture_output=True,
            encoding="utf-8",
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == printed


def test_sessions_that_play_at_once_do_not_disturb_each_other(
    package: EnvironmentPackage, particulars: Particulars, server: str, together: list[Transcript]
) -> None:
    assert len(together) == particulars.sessions
    for slot, transcript in enumerate(together):
        assert len(transcript) > 1
        assert transcript == together[slot % SEEDS]
    with GenericEnvClient(base_url=server).sync() as client:
        for seed in range(2):
            assert play_alone(package, particulars, client, seed, lambda: None) == together[seed]


def test_the_legacy_wire_tells_the_same(
    package: EnvironmentPackage, particulars: Particulars, server: str, together: list[Transcript]
) -> None:
    assert play_on_the_legacy_wire(package, particulars, server, 0) == together[0]


def test_a_fork_goes_on_as_the_session_would(
    package: EnvironmentPackage, particulars: Particulars, server: str, together: list[Transcript]
) -> None:
    with GenericEnvClient(base_url=server).sync() as client:
        playing = Playing(package, particulars, 0, client.reset(seed=0, episode_id="0"))
        playing.note(client.step(playing.action()))
        played_in = [(client, playing), *((fork, deepcopy(playing)) for fork in client.fork(2))]
        for session, its in played_in:
            while not its.over and len(its.transcript) <= particulars.steps:
                its.note(session.step(its.action()))
            assert its.transcript == together[0]


def test_a_refused_action_leaves_the_episode_as_it_was(
    package: EnvironmentPackage, particulars: Particulars, server: str, together: list[Transcript]
) -> None:
    wrong: list[Mapping[str, Any]] = [{"no_such_field": 1}, {"metadata": 5}]
    if particulars.illegal is not None:
        wrong.append(particulars.illegal)
    with GenericEnvClient(base_url=server).sync() as client:

        def disturb() -> None:
            before = client.state()
            for action in wrong:
                with pytest.raises(RequestRejectedError) as refused:
                    client.step(action)
                assert refused.value.message
            assert client.state() == before

        assert play_alone(package, particulars, client, 1, disturb) == together[1]


def test_a_refused_reset_leaves_the_episode_as_it_was(particulars: Particulars, server: str) -> None:
    with GenericEnvClient(base_url=server).sync() as client:
        client.reset(seed=3, episode_id="goes on")
        for name, values in particulars.refused.items():
            for value in values:
                with pytest.raises(RequestRejectedError, match=f"Wrong parameters of reset: {name}"):
                    client.reset(**{name: value})
        assert client.state()["episode_id"] == "goes on"


def test_another_seed_gives_another_episode(together: list[Transcript]) -> None:
    """Of the seed of the environment or of the player, whichever counts."""
    assert any(transcript != together[0] for transcript in together)


def test_the_state_names_the_episode_and_counts_its_steps(
    package: EnvironmentPackage, particulars: Particulars, server: str
) -> None:
    with GenericEnvClient(base_url=server).sync() as client:
        playing = Playing(package, particulars, 3, client.reset(seed=3, episode_id="the third"))
        before = client.state()
        assert before["episode_id"] == "the third"
        client.step(playing.action())
        assert client.state()["step_count"] == before["step_count"] + 1
        client.reset(seed=3)
        assert client.state()["episode_id"] not in (None, "the third")


def test_no_more_sessions_are_granted_than_the_variable_says() -> None:
    with (
        own_program("echo_env", MAX_CONCURRENT_ENVS="1") as url,
        GenericEnvClient(base_url=url).sync() as first,
    ):
        first.reset()
        with pytest.raises(ServerCapacityError):
            GenericEnvClient(base_url=url).sync().reset()
