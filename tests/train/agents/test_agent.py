"""The one function that plays episodes, with each kind of agent."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.environments.training import CRASHING_SEEDS
from tests.support.models.model_server import ScriptedModel, climb
from tests.support.servers import RunningServer

from openenv.adapters.text import ActionText
from openenv.core.exceptions import ServerError
from openenv.train.agents.agent import Agent, EndedEpisode, play
from openenv.train.agents.api_agent import ApiAgent
from openenv.train.agents.player_agent import PlayerAgent, form_of, random_players
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import derived_seed

# By numbers that are not their places, as where some episodes were played before.
TASKS = [(7, {"seed": 3}), (2, {"seed": 0}), (4, {"seed": CRASHING_SEEDS + 3}), (9, {"seed": 1}), (5, {"seed": 2})]
KINDS = ["player", "policy", "api"]


class Record:
    """An episode recorder of a test.

    Attributes:
        batches: The numbers of the episodes of each batch.
        ids: Their ids by number.
    """

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.ids: dict[int, str | None] = {}
        self._named = 0

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self._named += 1
        return {**parameters, "episode_id": f"recorded-{self._named}"}

    def add(self, episodes: Sequence[EndedEpisode]) -> None:
        self.batches.append([played.index for _, played in episodes])
        for by_rules, played in episodes:
            assert by_rules.episode is played.episode
            self.ids[played.index] = played.episode.episode_id


@contextmanager
def agent_of(kind: str, sessions: Sessions) -> Iterator[Agent]:
    """An agent of each kind; all of them take up to 9 actions."""
    if kind == "api":
        model = ScriptedModel(climb)
        with model.server:
            yield ApiAgent("climber", base_url=model.url, max_turns=9, concurrency=2)
    elif kind == "player":
        make_player = random_players(sessions)
        yield PlayerAgent(make_player, lambda number, task: derived_seed(1, "player", number), form_of(sessions), 9)
    else:
        actions = ActionText(sessions.action, "up")
        tokenizer = build_tokenizer(actions.choices, ["step and of"])
        policy = Policy(build_model(tokenizer, seed=1), tokenizer, PlainRenderer(tokenizer, actions, 4), actions)
        yield PolicyAgent(policy, TrainConfig(environment="stairs", max_turns=9), temperature=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_is_played_under_its_number_and_a_failure_is_no_reward(
    kind: str, stairs_server: RunningServer
) -> None:
    record = Record()
    with Sessions.open(stairs_server.url, 2) as sessions, agent_of(kind, sessions) as agent:
        played = list(play(agent, TASKS, sessions, record))
    assert sorted(each.index for each in played) == [2, 4, 5, 7, 9]
    assert sorted(number for batch in record.batches for number in batch) == [2, 4, 5, 7, 9]
    assert record.ids == {7: "recorded-1", 2: "recorded-2", 4: "recorded-3", 9: "recorded-4", 5: "recorded-5"}
    tasks = dict(TASKS)
    for each in played:
        assert each.episode.parameters == tasks[each.index]
        assert isinstance(each.episode.error, ServerError) is (each.index == 4)
        assert each.messages[0]["role"] == "user"


@pytest.mark.parametrize("kind", KINDS[:2])
def test_an_episode_does_not_depend_on_what_is_played_beside_it(kind: str, stairs_server: RunningServer) -> None:
    found = []
    for count in (1, 2, 5):
        with Sessions.open(stairs_server.url, count) as sessions, agent_of(kind, sessions) as agent:
            tasks = [task for task in TASKS if task[0] != 4]
            played = list(play(agent, tasks, sessions))
        assert [each.index for each in played] == [7, 2, 9, 5], "in the order of the tasks"
        found.append([(each.episode.turns, each.episode.completion_ids, each.messages) for each in played])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", KINDS)
def test_no_tasks_are_no_episodes(kind: str, stairs: Sessions) -> None:
    record = Record()
    with agent_of(kind, stairs) as agent:
        assert list(play(agent, [], stairs, record)) == []
    assert record.batches == []
