"""Training on environments that have tools and nothing else: by calls, not by texts."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.environments.training import ButtonsEnvironment, SecretiveEnvironment, seeded
from tests.support.models.chat_models import chat_model, chat_tokenizer
from tests.support.servers import RunningServer
from tests.train.trl.test_rollout_function import QWEN3

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.records.collection import Collection
from openenv.records.scores import AFTER, BEFORE, RANDOM
from openenv.train.agents.tool_policy import build_call_tokenizer, call_renderer
from openenv.train.dataset.collecting import collect
from openenv.train.episodes.episode import Episode, Turn
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.trl.env_spec import EnvSpec

SMALL: dict[str, Any] = {"rollouts": 16, "steps": 4, "max_turns": 2, "eval_episodes": 16}


@pytest.fixture(scope="module")
def buttons() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(ButtonsEnvironment, max_concurrent_envs=24)) as server:
        yield server


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def collected(folder: Path, url: str, form: Any) -> str:
    collect(PlaySettings(environment=url, player="random", form=form), 160, folder, console=quiet())
    return str(folder)


def test_the_tiny_policy_needs_examples_of_calls(buttons: RunningServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"are calls of tools, and the tiny policy begins.*--sft FOLDER those"):
        train(TrainConfig(environment=buttons.url, output_dir=tmp_path, **SMALL), quiet())
    assert not list(tmp_path.iterdir())


def test_the_tiny_policy_learns_calls_and_plays_by_them(buttons: RunningServer, tmp_path: Path) -> None:
    examples = collected(tmp_path / "examples", buttons.url, "tools")
    settings = {**SMALL, "output_dir": tmp_path / "runs", "sft": examples, "sft_epochs": 3}
    result = train(TrainConfig(environment=buttons.url, **settings), quiet())
    assert result.scores[BEFORE].mean_length == 0, "from random weights it calls nothing"
    assert result.scores[AFTER].mean_length == 1
    assert result.scores[AFTER].illegal_actions == 0
    for player in (RANDOM, AFTER):
        (turn,) = result.scores[player].examples["best"]["turns"]
        assert turn["action"] in ('press {"button": "red"}', 'press {"button": "green"}')
        assert turn["observation"].startswith("Press ")
        assert turn["reward"] == 1


def test_an_environment_with_actions_is_played_by_calls_where_settings_say_so(
    stairs_server: RunningServer, tmp_path: Path
) -> None:
    """The same run's model is evaluated by calls, too, without being told."""
    examples = collected(tmp_path / "examples", stairs_server.url, "tools")
    settings = {**SMALL, "output_dir": tmp_path / "runs", "sft": examples, "sft_epochs": 2, "max_turns": 4}
    result = train(TrainConfig(environment=stairs_server.url, form="tools", **settings), quiet())
    score = result.scores[AFTER]
    assert score.legal_answers is not None
    assert score.legal_answers > 0.5
    assert score.examples["best"]["turns"][0]["action"] in ('climb {"move": "up"}', 'climb {"move": "wait"}')
    played = PlaySettings(environment=stairs_server.url, model=str(result.folder.path))
    evaluation = evaluate(played, tmp_path / "evaluation", sessions=8, console=quiet())
    assert evaluation.greedy is not None
    assert evaluation.greedy.mean_reward.value == score.mean_reward
    (line, *_) = Collection(tmp_path / "evaluation").read()
    assert line["tools"]


def test_examples_in_which_actions_are_texts_are_refused(buttons: RunningServer, tmp_path: Path) -> None:
    examples = collected(tmp_path / "examples", buttons.url, "text")
    with pytest.raises(ConfigurationError, match=r"Expected episodes of calls in .*; in the one with index 0"):
        train(TrainConfig(environment=buttons.url, output_dir=tmp_path, sft=examples, **SMALL), quiet())


@pytest.mark.parametrize("thinking", [False, True])
def test_a_call_is_written_and_read_in_the_model_s_template(buttons: RunningServer, thinking: bool) -> None:
    tokenizer = chat_tokenizer(QWEN3)
    with Sessions.open(buttons.url, 1, with_tools=None) as sessions:
        assert sessions.tools is not None
        form = ToolForm(sessions.tools, prompt=prompt_messages("Act."))
        renderer = call_renderer(tokenizer, chat_model(tokenizer), form, max_action_tokens=99, thinking=thinking)
        written = renderer.answer('press {"button": "red"}')
        message, (move,) = renderer.read(written)
        assert (move.tool, move.arguments) == ("press", {"button": "red"})
        assert move.text == 'press {"button": "red"}'
        assert written[-1] in renderer.stop_ids
        opening = tokenizer.decode(renderer.opening(form.opening_messages("Press red.")))
        assert "Act.\n\nPress red." in opening
        assert '"name": "press"' in opening
        replies = form.replies(message, [MoveResult(move, "pressed")])
        assert "pressed" in tokenizer.decode(renderer.reply(written, replies))


def test_examples_without_calls_make_no_vocabulary(buttons: RunningServer) -> None:
    with Sessions.open(buttons.url, 1, with_tools=None) as sessions:
        assert sessions.tools is not None
        with pytest.raises(ConfigurationError, match="Expected calls of tools in the examples, got 'red'"):
            build_call_tokenizer(sessions.tools, [Episode(1, turns=[Turn("Press red.", "red", 0.0)])])


def test_a_task_that_no_model_sees_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    app = create_fastapi_app(SecretiveEnvironment, max_concurrent_envs=4)
    with RunningServer(app) as server, EnvSpec(server.url, num_tasks=2) as spec:
        game = spec.environment_factory()
        for row in spec.rows:
            assert game.reset(**row) == ""
        with Sessions.open(server.url, 2) as sessions:
            sessions.reset_tasks(seeded([1, 2]))
            assert sessions.hidden_text is not None
    (message,) = [record.message for record in caplog.records if record.name.startswith("openenv.train")]
    assert message.startswith("127.0.0.1: The first observation has text only in its metadata ('task')")
