"""As many sessions as rollouts are enough: every kind of environment, every way of playing it, on a full server."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console
from tests.support.environments.tools import Word, WordWithTools
from tests.support.environments.training import ButtonsEnvironment, StairsEnvironment, seeded
from tests.support.models.chat_models import chat_model, chat_tokenizer, save_chat_model
from tests.support.models.model_server import ScriptedModel
from tests.support.models.trainers import IGNORED, make_trainer
from tests.support.servers import LegacyOnly, RunningServer
from tests.train.trl.test_rollout_function import QWEN3

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ServerCapacityError
from openenv.records.collection import Collection
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.rollout_function import RolloutFunction

pytestmark = pytest.mark.filterwarnings(IGNORED)

SLOTS = 4

Form = Literal["text", "tools"]


class TaskToolsEnvironment(ButtonsEnvironment):
    """Buttons, with a further tool for each task."""

    def task_tools(self) -> list[Any]:
        """Return the tool once there is a task."""

        def peek() -> str:
            """Look at the paper again."""
            return self._named

        return [peek] if hasattr(self, "_named") else []


KINDS = {
    "actions": StairsEnvironment,
    "union": Word,
    "tools": ButtonsEnvironment,
    "both": WordWithTools,
    "task tools": TaskToolsEnvironment,
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str) -> Iterator[str]:
    with RunningServer(create_fastapi_app(KINDS[kind], max_concurrent_envs=SLOTS)) as server:
        yield server.url


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


@pytest.mark.parametrize("form", ["text", "tools"])
def test_collecting(url: str, form: Form, tmp_path: Path) -> None:
    settings = PlaySettings(environment=url, player="random", form=form, max_turns=2)
    collect(settings, 2 * SLOTS, tmp_path, sessions=SLOTS, console=quiet())
    assert len(Collection(tmp_path).read()) == 2 * SLOTS


@pytest.mark.parametrize("form", ["text", "tools"])
def test_evaluating_a_model_behind_an_address(url: str, form: Form, tmp_path: Path) -> None:
    scripted = ScriptedModel(lambda messages: "Nothing comes to mind.")
    with scripted.server:
        settings = PlaySettings(environment=url, model="climber", llm_endpoint=scripted.url, form=form, max_turns=2)
        evaluation = evaluate(settings, tmp_path, num_tasks=2 * SLOTS, sessions=SLOTS, console=quiet())
    assert (evaluation.episodes, evaluation.failed) == (2 * SLOTS, 0)


@pytest.mark.parametrize("wire", ["legacy", "v1"])
def test_environments_of_a_factory(kind: str, wire: str) -> None:
    app: Any = create_fastapi_app(KINDS[kind], max_concurrent_envs=SLOTS)
    app = LegacyOnly(app) if wire == "legacy" else app
    with RunningServer(app) as server, EnvSpec(server.url, num_tasks=SLOTS, sessions=SLOTS) as spec:
        environments = [spec.environment_factory() for _ in range(SLOTS)]
        for environment, row in zip(environments, spec.rows, strict=True):
            environment.reset(**row)
        assert [environment.error for environment in environments] == [None] * SLOTS


def test_a_trainer_with_environments_of_a_factory(url: str, tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(QWEN3)
    with EnvSpec(url, num_tasks=SLOTS, sessions=SLOTS) as spec:
        functions: dict[str, Any] = {
            "train_dataset": spec.train_dataset,
            "reward_funcs": spec.reward_funcs,
            "environment_factory": spec.environment_factory,
        }
        batch = {"per_device_train_batch_size": SLOTS, "max_completion_length": 30, "logging_steps": 1}
        trainer = make_trainer(tmp_path, chat_model(tokenizer), tokenizer, **functions, **batch)
        trainer.train()
        failed = [row["episode/failed"] for row in trainer.state.log_history if "episode/failed" in row]
    assert failed == [0.0]


@pytest.mark.parametrize("form", ["text", "tools"])
def test_a_rollout_function(url: str, form: Form, tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(QWEN3)
    with EnvSpec(url, num_tasks=SLOTS, max_turns=2) as spec:
        functions: dict[str, Any] = {
            "train_dataset": spec.train_dataset,
            "reward_funcs": spec.reward_funcs,
            "rollout_func": RolloutFunction(spec, actions=form, max_action_tokens=4),
        }
        batch = {"per_device_train_batch_size": SLOTS, "max_completion_length": 100, "beta": 0.0}
        trainer = make_trainer(tmp_path, chat_model(tokenizer), tokenizer, **functions, **batch)
        trainer.train()
        assert spec.tools.names, "the tools are there while all sessions are open"


@pytest.mark.parametrize("with_tools", [False, True])
def test_sessions_that_are_open_say_their_tools(url: str, kind: str, with_tools: bool) -> None:
    with Sessions.open(url, SLOTS, with_tools=with_tools) as sessions:
        with pytest.raises(ServerCapacityError):
            sessions.session().reset()
        names = EnvSpec(sessions, num_tasks=2).tools.names
        assert names == (sessions.tools.names if sessions.tools else sessions.ask_tools().names)
        assert len(sessions.reset_tasks(seeded(range(SLOTS)))) == SLOTS
    assert ("peek" in names) == (kind == "task tools" and not with_tools)


@pytest.mark.parametrize("model", ["tiny", "chat"])
def test_a_run_of_the_command(url: str, kind: str, model: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rollouts": SLOTS, "group_size": 2, "steps": 1, "max_turns": 2, "eval_episodes": SLOTS}
    if model == "chat":
        settings |= {"model": save_chat_model(tmp_path / "model", QWEN3), "max_action_tokens": 8, "max_context": 4096}
    elif kind in ("tools", "task tools"):
        examples = tmp_path / "examples"
        player = PlaySettings(environment=url, player="random", form="tools")
        collect(player, 40, examples, sessions=SLOTS, console=quiet())
        settings |= {"sft": str(examples), "sft_epochs": 3}
    result = train(TrainConfig(environment=url, output_dir=tmp_path / "runs", **settings), quiet())
    assert result.steps == 1
    played = PlaySettings(environment=url, model=str(result.folder.path), form="text")
    evaluation = evaluate(played, tmp_path / "evaluation", num_tasks=SLOTS, sessions=SLOTS, console=quiet())
    assert (evaluation.episodes, evaluation.failed) == (SLOTS, 0)


def test_a_run_with_several_environments(tmp_path: Path) -> None:
    """Each server has slots for all rollouts, as one may get them all, and for no more."""
    tools, actions = (create_fastapi_app(KINDS[kind], max_concurrent_envs=SLOTS) for kind in ("tools", "actions"))
    legacy: Any = LegacyOnly(actions)
    settings: dict[str, Any] = {"rollouts": SLOTS, "group_size": 2, "steps": 1, "max_turns": 2, "eval_episodes": SLOTS}
    settings |= {"model": save_chat_model(tmp_path / "model", QWEN3), "max_action_tokens": 8, "max_context": 4096}
    with RunningServer(tools) as first, RunningServer(legacy) as second:
        environments = {"tools": {"environment": first.url}, "actions": {"environment": second.url}}
        config = TrainConfig(environments=environments, output_dir=tmp_path / "runs", **settings)
        assert train(config, quiet()).steps == 1
