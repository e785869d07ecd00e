"""Recorded episodes as examples to learn from: the same as those that were played."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.environments.training import seeded
from tests.support.servers import eventually
from tests.support.services.postgres import Postgres
from tests.support.stored_episodes import of_an_environment

from openenv import find_environment, make, traces
from openenv.adapters.text import ActionText
from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.policy import make_policy
from openenv.train.agents.recording import play_tasks
from openenv.train.dataset.recorded import recorded_episodes
from openenv.train.episodes.episode import Episode
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.run.warm_up import find_examples
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.sessions import Sessions
from openenv.train.tools.environment_tools import EnvironmentTools

SEEDS = (3, 4, 5)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "traces.db"


@pytest.fixture(scope="module")
def sessions(file: Path) -> Iterator[Sessions]:
    client = make("catch", max_sessions=len(SEEDS) + 1, traces=file).sync()
    with Sessions("catch", client, find_environment("catch")) as opened:
        yield opened


@pytest.fixture(scope="module")
def played(sessions: Sessions, file: Path) -> list[Episode]:
    """Episodes of the scripted player, and of one that goes left, as texts."""
    package = find_environment("catch")
    players = [player for seed in SEEDS[:-1] if (player := package.make_player(seed)) is not None]
    left = package.action_class()(move="left")
    return play_tasks(sessions, [*players, lambda observation: left], seeded(SEEDS), max_turns=20)


@pytest.fixture(scope="module", autouse=True)
def is_on_record(played: list[Episode], file: Path) -> None:
    with traces.open(file) as opened:
        eventually(lambda: opened.count(traces.Filter(ending="done")) == len(played), "the episodes are on record")


def by_seed(episodes: list[Episode]) -> list[Episode]:
    return sorted(episodes, key=lambda episode: episode.seed or 0)


def test_recorded_episodes_are_those_that_were_played(sessions: Sessions, file: Path, played: list[Episode]) -> None:
    form = TextForm(ActionText(sessions.action), "")
    found = by_seed(list(recorded_episodes(file, "catch", form)))
    assert [episode.turns for episode in found] == [episode.turns for episode in played]
    assert [episode.parameters for episode in found] == seeded(SEEDS)


def test_actions_can_be_calls_of_tools(sessions: Sessions, file: Path) -> None:
    form = ToolForm(EnvironmentTools.of(sessions.client))
    calls = {turn.action for episode in recorded_episodes(file, "catch", form) for turn in episode.turns}
    assert 'step {"move": "left"}' in {call.replace(call.partition(" ")[0], "step", 1) for call in calls}


def test_a_warm_up_learns_from_those_with_enough_reward(sessions: Sessions, file: Path, played: list[Episode]) -> None:
    assert [episode.reward for episode in played] == [1.0, 1.0, -1.0]
    config = TrainConfig(environment="catch", sft=str(file), sft_min_reward=0.9)
    found = find_examples(config, sessions, make_policy(config, sessions))
    # The policy plays, too, before it is trained.
    assert {3, 4} <= {episode.seed for episode in found}
    assert 5 not in {episode.seed for episode in found}
    assert min(episode.reward for episode in found) >= 0.9
    strict = config.model_copy(update={"sft_min_reward": 2.0})
    with pytest.raises(ConfigurationError, match="a reward of 2 or more, got 1 at best"):
        find_examples(strict, sessions, make_policy(config, sessions))


def test_episodes_are_read_from_a_database(sessions: Sessions, file: Path, postgres: Postgres, tmp_path: Path) -> None:
    # Copied, since the policies of these tests play on the server that writes the file.
    copies = str(tmp_path / "copy.db"), postgres.new_database()
    with traces.open(file) as played:
        records = list(played.records())
    for place in copies:
        with traces.open(place, create=True) as opened:
            for record in records:
                opened.add(record.episode, record.entries)
    of_file, of_database = (TrainConfig(environment="catch", sft=place) for place in copies)
    policy = make_policy(of_file, sessions)
    found, expected = (
        sorted(repr(episode.turns) for episode in find_examples(config, sessions, policy))
        for config in (of_database, of_file)
    )
    assert found == expected
    assert len(found) >= len(SEEDS)


def test_episodes_of_another_environment_are_refused(sessions: Sessions, tmp_path: Path) -> None:
    record = of_an_environment()
    with traces.open(tmp_path / "other.db", create=True) as opened:
        opened.add(record.episode, record.entries)
    form = TextForm(ActionText(sessions.action), "")
    with pytest.raises(ConfigurationError, match=r"Expected episodes of catch in .*, found those of counter"):
        list(recorded_episodes(tmp_path / "other.db", "catch", form))
    assert [episode.reward for episode in recorded_episodes(tmp_path / "other.db", None, form)] == [1.0]


def test_episodes_that_were_exported_are_examples_as_their_file_is(
    sessions: Sessions, file: Path, played: list[Episode], tmp_path: Path
) -> None:
    with traces.open(file) as opened:
        first = next(opened.episodes(traces.Filter(seed=str(SEEDS[0]))))
        opened.label(first.id, "good")
    exported = tmp_path / "good.jsonl"
    assert traces.export(file, exported, "jsonl", traces.Filter(label="good")) == 1
    form = TextForm(ActionText(sessions.action), "")
    (found,) = recorded_episodes(exported, "catch", form)
    assert (found.seed, found.turns) == (SEEDS[0], played[0].turns)
    with pytest.raises(ConfigurationError, match=r"Expected episodes of wordle in .*good\.jsonl, found those of catch"):
        list(recorded_episodes(exported, "wordle", form))
    config = TrainConfig(environment="catch", sft=str(exported))
    assert len(find_examples(config, sessions, make_policy(config, sessions))) == 1
