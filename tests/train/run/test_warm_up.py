"""Learning from examples: in which tokens, from which episodes, and what comes of it."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.environment_folders import scaffold, write_files
from tests.support.environments.training import Climb, seeded
from tests.support.models.chat_models import save_chat_model
from tests.support.servers import RunningServer

from openenv.adapters.text import ActionText
from openenv.core.documents import is_draft
from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.agent import play
from openenv.train.agents.policy import Policy, load_policies, make_policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.dataset.collecting import collect
from openenv.train.episodes.episode import Episode
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.warm_up import example_tokens, find_examples, learn_examples
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"environment": "stairs", "rollouts": 8, "max_turns": 20, "fallback": "up", **settings})


def quiet() -> Console:
    return Console(file=StringIO())


def learn(policy: Policy, episodes: list[Episode], config: TrainConfig, folder: Path, console: Console) -> None:
    learn_examples(policy, [example_tokens(each, policy.renderer) for each in episodes], config, folder, console)


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_chat_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(params=["tiny", "chat"])
def settings(request: pytest.FixtureRequest, chat_folder: str) -> TrainConfig:
    """A tiny policy's settings, and a chat model's."""
    return config() if request.param == "tiny" else config(model=chat_folder, max_action_tokens=4)


def played(policy: Policy, sessions: Sessions, settings: TrainConfig, seed: int = 1) -> list[Episode]:
    agent = PolicyAgent(policy, settings, temperature=1.0, seed=seed)
    return [each.episode for each in play(agent, enumerate(seeded(range(8))), sessions)]


def test_an_example_is_what_the_model_would_have_been_fed_and_written(stairs: Sessions, settings: TrainConfig) -> None:
    """Episodes that the model itself has played, with its actions put in as text, come out in its own tokens."""
    policy = make_policy(settings, stairs)
    for episode in played(policy, stairs, settings):
        kept: list[int] = []
        for turn in episode.turns:
            kept += policy.renderer.answer(turn.action)
            (move,) = policy.renderer.read(policy.renderer.answer(turn.action)).moves
            assert move.text == turn.action
        ids, labels = example_tokens(episode, policy.renderer)
        assert [label for label in labels if label != -100] == kept
        assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
        assert ids[: len(episode.prompt_ids)] == episode.prompt_ids


def test_the_tokens_of_words_are_those_of_a_rollout(stairs: Sessions) -> None:
    """Of the tiny policy every word is one token, but for the end of a text and the like, which are no words."""
    short = config(max_turns=2)
    policy = make_policy(short, stairs)
    episodes = [episode for episode in played(policy, stairs, short) if all(turn.action for turn in episode.turns)]
    assert len(episodes) > 2
    for episode in episodes:
        ids, labels = example_tokens(episode, policy.renderer)
        assert ids == episode.prompt_ids + episode.completion_ids
        mask = [int(label != -100) for label in labels]
        assert mask == [0] * len(episode.prompt_ids) + episode.env_mask


@pytest.fixture(scope="module")
def collected(stairs_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of a player that climbs without a pause; so does the random one, now and then."""
    folder = tmp_path_factory.mktemp("data")
    play = PlaySettings(environment=stairs_server.url, player="random", form="text", max_turns=4)
    return collect(play, 150, folder / "climbing", min_reward=0.25, console=quiet()).collection.path


def test_collected_episodes_are_read_as_they_were_played(stairs: Sessions, collected: Path) -> None:
    settings = config(sft=str(collected))
    policy = make_policy(settings, stairs)
    examples = find_examples(settings, stairs, policy)
    lines = [json.loads(line) for line in (collected / "episodes.jsonl").read_text().splitlines()]
    legal = [line for line in lines if not line["illegal_actions"]]
    assert 0 < len(legal) < len(lines)
    assert [example.reward for example in examples] == [line["reward"] for line in legal]
    assert [len(example.turns) for example in examples] == [line["length"] for line in legal]
    first = examples[0]
    assert first.turns[0].observation == f"step of {1 + (first.seed or 0) % 4}"
    assert {turn.action for example in examples for turn in example.turns} <= {"up", "wait"}


def test_a_model_learns_what_it_is_shown(
    stairs: Sessions, settings: TrainConfig, collected: Path, tmp_path: Path
) -> None:
    """Before it naps now and then; afterwards it does what the examples do."""
    learning = settings.model_copy(update={"sft": str(collected), "sft_learning_rate": 1e-2, "sft_epochs": 4.0})
    policy = make_policy(learning, stairs)
    before = sum(episode.illegal_actions for episode in played(policy, stairs, learning))
    console = quiet()
    with quiet_libraries():
        learn(policy, find_examples(learning, stairs, policy), learning, tmp_path / "warm_up", console)
    warmed = load_policies(learning, {"": stairs}, tmp_path / "warm_up")[""]
    after = sum(episode.illegal_actions for episode in played(warmed, stairs, learning))
    assert after < before / 3
    rows = [json.loads(line) for line in (tmp_path / "warm_up" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["loss"] < rows[0]["loss"] / 2
    written = console.file
    assert isinstance(written, StringIO)
    assert f"warm-up  {len(rows)}/{len(rows)} steps  loss " in written.getvalue()
    assert not [path for path in tmp_path.iterdir() if is_draft(path, tmp_path / "warm_up")]


def test_the_scripted_player_is_learned_from(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "siskin_env")
    player = """
        from .models import SiskinAction

        def make_player(seed):
            return lambda observation: SiskinAction(message="x" * (1 + seed % 3))
        """
    write_files(folder, {"player.py": player})
    settings = config(sft=5, max_turns=2)
    with Sessions.open(str(folder), 2) as sessions:
        policy = make_policy(settings, sessions)
        examples = find_examples(settings, sessions, policy)
        again = find_examples(settings, sessions, policy)
    assert [len(example.turns) for example in examples] == [2] * 5
    assert {turn.action for example in examples for turn in example.turns} == {"x", "xx", "xxx"}
    assert [example.turns for example in examples] == [example.turns for example in again]


def refused(sessions: Sessions, message: str, **settings: Any) -> None:
    wanted = config(**settings)
    with pytest.raises(ConfigurationError, match=message):
        find_examples(wanted, sessions, make_policy(wanted, sessions))


def test_what_cannot_be_learned_from_is_told(
    stairs: Sessions, stairs_server: RunningServer, collected: Path, tmp_path: Path
) -> None:
    refused(stairs, "has no scripted player to learn from; give --sft a folder", sft=3)
    refused(stairs, "Expected a folder that openenv collect has made", sft=str(tmp_path / "none"))
    tools = PlaySettings(environment=stairs_server.url, player="random")
    collect(tools, 2, tmp_path / "tools", console=quiet())
    refused(stairs, "actions as texts in .*tools, .* and has calls of tools", sft=str(tmp_path / "tools"))
    file = collected / "episodes.jsonl"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "episodes.jsonl").write_text(file.read_text().replace("You act in", "You sit in"))
    refused(stairs, "begins with 'You sit in the environment", sft=str(tmp_path / "other"))
    sleepy = "".join(line for line in file.read_text().splitlines(True) if json.loads(line)["illegal_actions"])
    (tmp_path / "other" / "episodes.jsonl").write_text(sleepy)
    refused(stairs, "episodes to learn from, none has legal actions only", sft=str(tmp_path / "other"))


def test_episodes_that_are_too_long_are_left_out(stairs: Sessions, collected: Path, tmp_path: Path) -> None:
    settings = config(sft=str(collected), max_context=16)
    policy = make_policy(settings, stairs)
    examples = find_examples(settings, stairs, policy)
    lengths = [len(example_tokens(example, policy.renderer)[0]) for example in examples]
    short = [example for example, length in zip(examples, lengths, strict=True) if length <= 16]
    assert 0 < len(short) < len(examples)
    with quiet_libraries():
        learn(policy, examples, settings, tmp_path / "warm_up", quiet())
        rows = (tmp_path / "warm_up" / "metrics.jsonl").read_text().splitlines()
        assert len(rows) == -(-len(short) // settings.sft_batch)
        longest = [example for example in examples if example not in short]
        with pytest.raises(ConfigurationError, match="tokens, and max_context is 16; set a larger max_context"):
            learn(make_policy(settings, stairs), longest, settings, tmp_path / "again", quiet())


def test_an_answer_is_read_back_as_its_action(stairs: Sessions, settings: TrainConfig) -> None:
    renderer = make_policy(settings, stairs).renderer
    actions = ActionText(Climb)
    for text in actions.choices:
        written = renderer.answer(text)
        (move,) = renderer.read(written).moves
        assert (move.action, move.problem) == ({"move": text}, None)
        assert len(written) == 1 or written[-1] in renderer.stop_ids
