"""Players as an agent: their episodes, and the conversations of these."""

import random
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import pytest
from tests.support.environments.training import (
    CRASHING_SEEDS,
    DONE_AT_RESET_SEEDS,
    FAILING_RESET_SEEDS,
    Climb,
    seeded,
)
from tests.support.play import episodes_of, played_by
from tests.support.servers import RunningServer

from openenv import NDArray
from openenv.adapters.text import ActionText
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.tools import tool
from openenv.core.env_server.types import Observation, State
from openenv.core.exceptions import EnvironmentFailedError, ServerError, ServerExecutionError
from openenv.train.agents.player_agent import form_of
from openenv.train.agents.players import RandomPlayer, RandomToolPlayer
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.sessions import Sessions


@pytest.fixture(scope="module")
def sessions(stairs_server: RunningServer) -> Iterator[Sessions]:
    with Sessions.open(stairs_server.url, 8, with_tools=True) as opened:
        yield opened


class Follower:
    """Does one action after another, and the last one for ever."""

    def __init__(self, actions: Sequence[Any]) -> None:
        self._left = list(actions)

    def __call__(self, observation: Any) -> Any:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def record(sessions: Sessions, form: ToolForm | TextForm, *seeds: int, **settings: Any) -> list[Any]:
    tasks = [{"seed": seed} for seed in seeds]
    players = [Follower([{"move": "fall asleep"}, {"move": "up"}]) for _ in seeds]
    return played_by(players, tasks, sessions, form, **settings)


def test_a_refused_and_a_winning_call(sessions: Sessions) -> None:
    assert sessions.tools is not None
    form = ToolForm(sessions.tools, prompt=prompt_messages(system_prompt="Be quick."))
    (played,) = record(sessions, form, 1)
    calls = [("call00000", "fall asleep"), ("call00001", "up"), ("call00002", "up")]
    replies = ["No sleeping on the stairs.", "step and of 2\nposition 1", "step and and of 2\nposition 2"]
    texts = [reply.partition("\n")[0] for reply in replies]
    expected: list[dict[str, Any]] = [
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "step of 2"},
    ]
    for (number, move), text in zip(calls, texts, strict=True):
        function = {"name": "climb", "arguments": {"move": move}}
        call = {"id": number, "type": "function", "function": function}
        expected.append({"role": "assistant", "content": "", "tool_calls": [call]})
        expected.append({"role": "tool", "tool_call_id": number, "name": "climb", "content": text})
    assert played.messages == expected
    assert played.tools == sessions.tools.schemas()
    assert (played.index, played.episode.parameters) == (0, {"seed": 1})
    assert (played.episode.reward, played.episode.done, played.episode.illegal_actions) == (0.75, True, 1)
    done = [turn.action for turn in played.episode.turns]
    assert done == ['climb {"move": "fall asleep"}', 'climb {"move": "up"}', 'climb {"move": "up"}']


def test_the_same_as_texts(sessions: Sessions) -> None:
    form = TextForm(ActionText(Climb), "Climb.")
    (played,) = record(sessions, form, 0)
    said = [(message["role"], message["content"]) for message in played.messages]
    assert said == [
        ("user", "Climb.\n\nstep of 1"),
        ("assistant", "fall asleep"),
        ("user", "That was no legal action: No sleeping on the stairs.\n\nstep of 1"),
        ("assistant", "up"),
        ("user", "step and of 1"),
    ]
    assert played.tools == []


def test_episodes_of_different_lengths_stay_apart(sessions: Sessions) -> None:
    assert sessions.tools is not None
    played = record(sessions, ToolForm(sessions.tools), 3, 0, 1, 2, max_turns=4)
    assert [len(each.episode.turns) for each in played] == [4, 2, 3, 4]
    assert [each.episode.done for each in played] == [False, True, True, True]
    assert [each.messages[0]["content"][-1] for each in played] == ["4", "1", "2", "3"]


def test_a_failure_ends_its_episode_alone(sessions: Sessions) -> None:
    assert sessions.tools is not None
    seeds = [CRASHING_SEEDS + 3, 0, 0, FAILING_RESET_SEEDS, 0]
    played = record(sessions, ToolForm(sessions.tools), *seeds)
    assert [isinstance(each.episode.error, ServerError) for each in played] == [True, False, False, True, False]
    assert played[3].messages == []
    assert [each.episode.reward for each in played if not each.episode.error] == [0.25] * 3


def test_most_failing_is_an_error(sessions: Sessions) -> None:
    assert sessions.tools is not None
    with pytest.raises(EnvironmentFailedError, match="more than half beyond chance"):
        record(sessions, ToolForm(sessions.tools), *(FAILING_RESET_SEEDS + number for number in range(8)), 0)


class Workshop(Environment[CallToolAction, CallToolObservation, State]):
    """Two tools: one adds, the other fails."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def reset(self, seed: int | None = None) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return State()

    @tool
    def add(self, left: int, right: int) -> int:
        """Add two numbers.

        Args:
            left: One.
            right: The other.
        """
        return left + right

    @tool
    def explode(self) -> str:
        """Fail."""
        raise ValueError("bang")


def test_tools_of_the_environments_own() -> None:
    app = create_fastapi_app(Workshop, CallToolAction, CallToolObservation, max_concurrent_envs=3)
    with RunningServer(app) as server, Sessions.open(server.url, 2, with_tools=True) as sessions:
        assert sessions.tools is not None
        calls = [("add", {"left": 2, "right": 3}), ("explode", {})]
        player = Follower([sessions.tools.action(name, arguments) for name, arguments in calls])
        (played,) = played_by([player], [{}], sessions, ToolForm(sessions.tools), 2)
        contents = [message["content"] for message in played.messages if message["role"] == "tool"]
        assert contents[0] == "5"
        assert "bang" in contents[1]
        assert [turn.problem is None for turn in played.episode.turns] == [True, False]
        check_failing_call_as_text(sessions, player=Follower([sessions.tools.action("explode", {})]))
        check_random_calls(sessions)


def check_failing_call_as_text(sessions: Sessions, player: Follower) -> None:
    """A model that acts by texts is shown the same in training, behind an address, and in a recording."""
    form = TextForm(ActionText(sessions.action))
    (played,) = played_by([player], [{}], sessions, form, 1)
    problem = played.episode.turns[0].problem
    assert problem is not None
    assert "bang" in problem
    assert played.messages[-1]["role"] == "user"
    assert played.messages[-1]["content"].startswith(f"That was no legal action: {problem}\n\n")


class Picture(Observation):
    """A view from a window."""

    text: str = "rain"
    view: Annotated[np.ndarray[Any, Any], NDArray("uint8", (4, 4, 3), picture=True)]


class Window(Environment[Climb, Picture, State]):
    """Shows a picture each time; the reward is 0."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None) -> Picture:
        return Picture(view=np.full((4, 4, 3), 9, np.uint8))

    def step(self, action: Climb) -> Picture:
        return Picture(view=np.full((4, 4, 3), 9, np.uint8), text="sun", done=True, reward=0.0)

    @property
    def state(self) -> State:
        return State()


@pytest.mark.parametrize("with_tools", [True, False])
def test_pictures_are_what_a_model_sees_and_the_turns_have_none(with_tools: bool) -> None:
    app = create_fastapi_app(Window, Climb, Picture, max_concurrent_envs=3)
    with RunningServer(app) as server, Sessions.open(server.url, 1, with_tools=with_tools) as sessions:
        (played,) = played_by([Follower([{"move": "up"}])], [{}], sessions, form_of(sessions), 1)
    seen = [message["content"] for message in played.messages if message["role"] != "assistant"]
    assert [[block["type"] for block in sorted(blocks, key=lambda each: each["type"])] for blocks in seen] == [
        # Behind the goal the observation of a conversation with tools has blocks of its own, as TRL adds them.
        ["image", "text", *(["text"] if with_tools else [])],
        ["image", "text"],
    ]
    assert text_of(seen[0]).endswith("rain")
    assert text_of(seen[1]) == "sun"
    assert [turn.observation for turn in played.episode.turns] == ["rain"]


def check_random_calls(sessions: Sessions) -> None:
    """The random player calls every tool with arguments that fit its schema, and the same seed does the same."""
    assert sessions.tools is not None
    tools = sessions.tools
    players = [RandomToolPlayer(tools, 1), RandomToolPlayer(tools, 1)]
    calls = [[tools.call(player({})) for _ in range(20)] for player in players]
    assert calls[0] == calls[1]
    assert {name for name, _ in calls[0]} == {"add", "explode"}
    assert all(isinstance(value, int) for _, arguments in calls[0] for value in arguments.values())
    assert all(set(arguments) == ({"left", "right"} if name == "add" else set()) for name, arguments in calls[0])


def test_a_record_begins_with_its_task() -> None:
    episode = Episode.of_task({"split": "test", "index": 2, "seed": 5})
    assert (episode.seed, episode.task) == (5, {"split": "test", "index": 2})
    assert episode.parameters == {"split": "test", "index": 2, "seed": 5}
    assert Episode.of_task({"index": 2}).parameters == {"index": 2}
    assert Episode(7).parameters == {"seed": 7}


def always_up(_: Any) -> dict[str, str]:
    return {"move": "up"}


def sleepy(_: Any) -> dict[str, str]:
    return {"move": "fall asleep"}


def test_episodes_are_played_to_their_ends(stairs: Sessions) -> None:
    episodes = episodes_of([always_up] * 4, seeded([0, 1, 2, 3]), stairs, 3)
    assert [len(episode.turns) for episode in episodes] == [1, 2, 3, 3]
    assert [episode.done for episode in episodes] == [True, True, True, False]
    assert [episode.reward for episode in episodes] == [0.25, 0.75, 1.5, 1.5]
    assert [turn.observation for turn in episodes[1].turns] == ["step of 2", "step and of 2"]
    assert {turn.action for episode in episodes for turn in episode.turns} == {"up"}


def test_refused_actions_are_noted(stairs: Sessions) -> None:
    (episode,) = episodes_of([sleepy], seeded([0]), stairs, 2)
    assert [turn.problem for turn in episode.turns] == ["No sleeping on the stairs."] * 2
    assert episode.illegal_actions == 2


def test_one_failure_is_noted_and_most_failing_is_raised(stairs: Sessions) -> None:
    episodes = episodes_of([always_up] * 3, seeded([3, 3, CRASHING_SEEDS + 3]), stairs, 9)
    assert [episode.error is None for episode in episodes] == [True, True, False]
    with pytest.raises(EnvironmentFailedError, match="more than half beyond chance"):
        episodes_of([always_up] * 8, seeded([CRASHING_SEEDS + 3] * 8), stairs, 9)


def test_a_reset_that_fails_is_one_failed_episode(stairs: Sessions) -> None:
    failed, *others = episodes_of([always_up] * 3, seeded([FAILING_RESET_SEEDS, 1, 2]), stairs, 9)
    assert isinstance(failed.error, ServerExecutionError)
    assert [episode.done for episode in others] == [True, True]


def test_an_episode_that_is_over_at_once_counts_and_is_not_stepped(stairs: Sessions) -> None:
    over, played, also_over = episodes_of(
        [always_up] * 3, seeded([DONE_AT_RESET_SEEDS, 0, DONE_AT_RESET_SEEDS + 1]), stairs
    )
    for episode in (over, also_over):
        assert (episode.done, episode.error, episode.turns, episode.reward) == (True, None, [], 0.0)
    assert len(played.turns) == 1


def test_random_players_play(stairs: Sessions) -> None:
    actions = ActionText(stairs.action)
    seeds = random.Random(1).sample(range(100), 12)
    players = [RandomPlayer(actions, seed) for seed in seeds]
    episodes = episodes_of(players, seeded(seeds), stairs, 50)
    assert all(episode.done for episode in episodes)
    assert {turn.action for episode in episodes for turn in episode.turns} == {"up", "wait", "fall asleep"}
