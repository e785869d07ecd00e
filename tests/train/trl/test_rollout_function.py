"""TRL's rollout_func for any environment: tokens, mask and log-probabilities are what was fed and written."""

import gc
import random
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
import torch
import trl
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.environments.training import CRASHING_SEEDS, ENDLESS_REWARD_SEEDS, FAILING_RESET_SEEDS
from tests.support.models.chat_models import CHATML, chat_model, chat_tokenizer
from tests.support.servers import RunningServer
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv import Action, Environment, NDArray, Observation, State, traces
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.dataset.rollout_traces import RolloutTraces
from openenv.train.forms.tool_form import ToolForm
from openenv.train.generation import trainers
from openenv.train.generation.transformers_generator import TransformersGenerator
from openenv.train.quiet import quiet_libraries
from openenv.train.samplers import CurriculumSampler, SequentialSampler
from openenv.train.tasks.task_dataset import unnumbered
from openenv.train.trl.env_spec import EnvSpec, EnvSpecs
from openenv.train.trl.rollout_function import RolloutFunction

# TRL 1.16 uses names that transformers 5.23 has changed.
pytestmark = pytest.mark.filterwarnings(r"ignore:`(is_)?gradient_checkpointing\w*` is deprecated:FutureWarning")

SEEDS = list(range(12))
WORDS = ["step and of 1 2 3 4", "move: Input should be up wait or fall asleep", "No sleeping on the stairs."]
QWEN3 = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
END = "<|im_end|>"


def call(move: str, name: str = "climb") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"move": "{move}"}}}}\n</tool_call>'


class Forced(TransformersGenerator):
    """A generator with given completions; its log-probabilities are the model's."""

    answers: ClassVar[list[list[int]]] = []
    choice: ClassVar[random.Random] = random.Random(1)

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> Any:
        self._forced = [self.choice.choice(self.answers)[:limit] for limit in limits]
        self._at = 0
        return super().generate(limits, stop_ids)

    def sample(self, writing: Container[int] | None = None) -> tuple[list[int], list[float]]:
        tokens = [forced[self._at] if self._at < len(forced) else 0 for forced in self._forced]
        self._at += 1
        logprobs = self._sampling.logprobs(self._logits)
        return tokens, logprobs.gather(1, torch.tensor(tokens)[:, None]).squeeze(1).tolist()


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Callable[[PreTrainedTokenizerFast, Sequence[str]], None]:
    def force(tokenizer: PreTrainedTokenizerFast, answers: Sequence[str]) -> None:
        monkeypatch.setattr(Forced, "answers", [tokenizer.encode(answer) for answer in answers])
        monkeypatch.setattr(Forced, "choice", random.Random(1))
        monkeypatch.setattr(trainers, "TransformersGenerator", Forced)

    return force


@pytest.fixture
def make_spec(stairs_server: RunningServer) -> Iterator[Callable[..., EnvSpec]]:
    specs: list[EnvSpec] = []

    def make(seeds: Sequence[int] = SEEDS, **settings: Any) -> EnvSpec:
        settings = {"max_turns": 6, **settings}
        specs.append(EnvSpec(stairs_server.url, **{"tasks": [{"seed": seed} for seed in seeds], **settings}))
        return specs[-1]

    yield make
    for spec in specs:
        spec.close()


def make_trainer(
    folder: Path,
    spec: EnvSpec | EnvSpecs,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rollout_func: RolloutFunction | None = None,
    **settings: Any,
) -> GRPOTrainer:
    defaults = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 400,
        "max_steps": 2,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 3,
    }
    with quiet_libraries():
        return GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=GRPOConfig(output_dir=str(folder), **{**defaults, **settings}),
            train_dataset=spec.train_dataset,
            reward_funcs=[*spec.reward_funcs],
            rollout_func=rollout_func or RolloutFunction(spec),
        )


def prompts_of(spec: EnvSpec) -> list[Any]:
    return list(spec.train_dataset["prompt"])


def assert_exact(fields: dict[str, list[Any]], model: Any, temperature: float = 1.0) -> None:
    """Check that all lists fit each other, and the log-probabilities against the model, computed without a cache."""
    model.eval()
    for prompt, completion, logprobs, mask in zip(
        fields["prompt_ids"], fields["completion_ids"], fields["logprobs"], fields["env_mask"], strict=True
    ):
        assert prompt
        assert 1 <= len(completion) == len(logprobs) == len(mask)
        tokens = torch.tensor([prompt + completion])
        with torch.no_grad():
            logits = model(input_ids=tokens, use_cache=False).logits[0, len(prompt) - 1 : -1]
        own = (logits / temperature).log_softmax(-1).gather(1, tokens[0, len(prompt) :, None]).squeeze(1)
        torch.testing.assert_close(torch.tensor(logprobs), own * torch.tensor(mask), rtol=1e-3, atol=1e-4)


def written(fields: dict[str, list[Any]], number: int) -> list[list[int]]:
    """The runs of tokens of an episode that the model wrote."""
    pairs = zip(fields["env_mask"][number], fields["completion_ids"][number], strict=True)
    return [[token for _, token in run] for mask, run in groupby(pairs, lambda pair: pair[0]) if mask]


def tool_setting(spec: EnvSpec) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    tokenizer = build_tool_tokenizer(spec.tools.schemas(), [*WORDS, "Climb."])
    return build_model(tokenizer, layers=2), tokenizer


def test_a_renderer_keeps_its_tokenizer_so_that_no_other_is_taken_for_it(
    make_spec: Any, forced: Any, tmp_path: Path
) -> None:
    spec = make_spec()
    model, tokenizer = tool_setting(spec)
    forced(tokenizer, [call("up") + END])
    play = RolloutFunction(spec)
    trainer = make_trainer(tmp_path, spec, model, tokenizer)
    play(prompts_of(spec), trainer)
    kept = weakref.ref(tokenizer)
    del trainer, tokenizer
    gc.collect()
    assert kept() is not None


class TestTools:
    def test_an_episode_is_the_whole_conversation_in_the_template(
        self, make_spec: Any, forced: Any, tmp_path: Path
    ) -> None:
        spec = make_spec(system_prompt="Climb.")
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, [call("up") + END, call("wait") + END, call("fall asleep") + END])
        fields = RolloutFunction(spec)(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))
        assert_exact(fields, model)
        assert set(fields["episode_done"]) == {True, False}
        for number, prompt in enumerate(prompts_of(spec)):
            height = 1 + number % 4
            messages = ToolForm(spec.tools).opening_messages(f"step of {height}", unnumbered(prompt))
            assert fields["prompt_ids"][number] == tokenizer.apply_chat_template(
                messages, tools=spec.tools.schemas(), add_generation_prompt=True, return_dict=False
            )
            steps = fields["trajectory"][number]
            assert len(steps) == fields["episode_length"][number]
            for step in steps:
                function = {"name": step.tool, "arguments": step.arguments}
                messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
                messages.append({"role": "tool", "name": step.tool, "content": step.observation})
            # After its last call an episode has ended, and what that came to is not fed.
            assert fields["prompt_ids"][number] + fields["completion_ids"][number] == tokenizer.apply_chat_template(
                messages[:-1], tools=spec.tools.schemas(), return_dict=False
            )
            refused = [step for step in steps if step.arguments == {"move": "fall asleep"}]
            assert all(step.observation == step.problem == "No sleeping on the stairs." for step in refused)
            assert fields["illegal_actions"][number] == len(refused)
            reward = sum(step.reward or 0.0 for step in steps)
            assert fields["environment_reward"][number] == fields["episode_reward"][number] == pytest.approx(reward)
            assert fields["episode_done"][number] == (steps[-1].done and steps[-1].reward == 0.25 * height)

    def test_calls_of_every_kind_stay_exact_in_a_real_template(
        self, make_spec: Any, forced: Any, tmp_path: Path
    ) -> None:
        spec = make_spec()
        tokenizer = chat_tokenizer(QWEN3)
        model = chat_model(tokenizer)
        answers = [
            call("up") + END,
            f"{call('wait')}\n{call('up')}{END}",
            call("jump") + END,
            call("up", "fly") + END,
            "<tool_call>\nup" + END,
            "<think>\nhigh\n</think>\n\n" + call("up") + END,
        ]
        forced(tokenizer, answers)
        trainer = make_trainer(tmp_path, spec, model, tokenizer, temperature=0.7, max_completion_length=2000)
        fields = RolloutFunction(spec, unreadable="tell")(prompts_of(spec), trainer)
        assert_exact(fields, model, temperature=0.7)
        scripts = [tokenizer.encode(answer) for answer in answers]
        assert all(run in scripts for number in SEEDS for run in written(fields, number))
        steps = [step for trajectory in fields["trajectory"] for step in trajectory]
        assert {step.tool for step in steps} == {"climb", "fly", ""}
        assert {step.problem is None for step in steps if step.arguments == {"move": "up"}} >= {True}
        assert all(step.problem for step in steps if step.tool != "climb" or step.arguments == {"move": "jump"})
        assert max(fields["episode_length"]) <= 6

    def test_calls_are_recorded_with_what_each_gave(
        self, make_spec: Any, forced: Any, stairs_server: RunningServer, tmp_path: Path
    ) -> None:
        spec = make_spec()
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, [call("up") + END, call("jump") + END, "<tool_call>\nup" + END])
        with RolloutTraces(tmp_path / "traces.db", "mine", {"": stairs_server.url}) as recorder:
            rollout = RolloutFunction(spec, max_action_tokens=20, unreadable="tell", recorder=recorder)
            fields = rollout(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))
        with traces.open(tmp_path / "traces.db") as file:
            found = [(record, record.conversations[0]) for record in file.records()]
        found.sort(key=lambda pair: pair[1].extra["index"])
        assert [conversation.completion_ids for _, conversation in found] == fields["completion_ids"]
        assert [conversation.extra["group"] for _, conversation in found] == list(range(len(SEEDS)))
        assert [record.episode.reward for record, _ in found] == fields["episode_reward"]
        for (_, conversation), steps in zip(found, fields["trajectory"], strict=True):
            assert conversation.tools == spec.tools.schemas()
            opening, *said = conversation.messages
            assert opening["role"] == "user"
            rest = said[2 * len(steps) :]
            assert [message["role"] for message in rest] in ([], ["assistant"]), "an answer without a call ends it"
            said = said[: 2 * len(steps)]
            assert [message["role"] for message in said[::2]] == ["assistant"] * len(steps)
            calls = [message.get("tool_calls", [{}])[0].get("function", {}).get("name", "") for message in said[::2]]
            assert calls == [step.tool for step in steps]
            assert all(message["content"] for message in said[1::2])

    def test_an_unreadable_call_ends_the_episode_unless_it_is_told(
        self, make_spec: Any, forced: Any, tmp_path: Path
    ) -> None:
        spec = make_spec(SEEDS[:4])
        model, tokenizer = tool_setting(spec)
        broken = '<tool_call>\n{"name": "climb", "arguments": {' + END
        forced(tokenizer, [broken])
        trainer = make_trainer(tmp_path, spec, model, tokenizer)
        told = RolloutFunction(spec, max_action_tokens=20, unreadable="tell")(prompts_of(spec), trainer)
        assert {step.tool for steps in told["trajectory"] for step in steps} == {""}
        assert told["illegal_actions"] == [6] * 4
        ended = RolloutFunction(spec)(prompts_of(spec), trainer)
        assert ended["completion_ids"] == [tokenizer.encode(broken)] * 4

    def test_an_answer_without_a_call_ends_the_episode(self, make_spec: Any, forced: Any, tmp_path: Path) -> None:
        spec = make_spec(SEEDS[:4])
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, ["Climb." + END])
        fields = RolloutFunction(spec)(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))
        assert fields["completion_ids"] == [tokenizer.encode("Climb." + END)] * 4
        assert fields["episode_length"] == [0] * 4
        assert fields["environment_reward"] == [0.0] * 4

    @pytest.mark.parametrize("room", [12, 20, 40])
    def test_episodes_end_where_the_completion_does(
        self, make_spec: Any, forced: Any, tmp_path: Path, room: int
    ) -> None:
        spec = make_spec(max_turns=None)
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, [call("wait") + END])
        trainer = make_trainer(tmp_path, spec, model, tokenizer, max_completion_length=room)
        fields = RolloutFunction(spec)(prompts_of(spec), trainer)
        assert_exact(fields, model)
        assert all(len(completion) <= room for completion in fields["completion_ids"])
        assert all(mask[-1] == 1 for mask in fields["env_mask"]), "an episode ends with what the model wrote"
        assert not any(fields["episode_done"])


class TestText:
    def test_a_chat_model_is_told_how_to_act_after_the_dataset_s_prompt(self, make_spec: Any, tmp_path: Path) -> None:
        spec = make_spec(system_prompt="Climb.", instructions="These are stairs.")
        tokenizer = chat_tokenizer(CHATML)
        model = chat_model(tokenizer)
        rollout = RolloutFunction(spec, max_action_tokens=6, fallback="up")
        fields = rollout(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer, rollout))
        assert_exact(fields, model)
        told = "Answer with exactly one of these and nothing else: up, wait, fall asleep."
        assert tokenizer.decode(fields["prompt_ids"][0]) == (
            "<|im_start|>system\nClimb.<|im_end|>\n<|im_start|>user\n"
            f"These are stairs.\n{told}\n\nstep of 1<|im_end|>\n<|im_start|>assistant\n"
        )
        assert all(len(run) <= 6 for number in SEEDS for run in written(fields, number))
        assert all(fields["episode_done"])
        assert fields["trajectory"][0][0].arguments.keys() == {"text"}

    def test_one_token_without_a_chat_template(self, make_spec: Any, tmp_path: Path) -> None:
        spec = make_spec()
        tokenizer = build_tokenizer(["up", "wait", "fall asleep"], ["step and of"])
        model = build_model(tokenizer, layers=2)
        rollout = RolloutFunction(spec, fallback="up")
        fields = rollout(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer, rollout))
        assert_exact(fields, model)
        assert all(len(run) == 1 for number in SEEDS for run in written(fields, number))

    def test_one_token_of_a_chat_model(self, make_spec: Any, tmp_path: Path) -> None:
        spec = make_spec()
        with pytest.raises(ConfigurationError, match=r"'up' is several\. Take actions='text'"):
            RolloutFunction(spec, actions="token")(
                prompts_of(spec),
                make_trainer(tmp_path, spec, chat_model(chat_tokenizer(CHATML)), chat_tokenizer(CHATML)),
            )
        words = build_tokenizer(["up", "wait", "fall asleep"], ["step and of"])
        words.chat_template = "{% for m in messages %}{{ m.content }} {{ eos_token }} {% endfor %}"
        model = build_model(words)
        rollout = RolloutFunction(spec, actions="token", fallback="up")
        fields = rollout(prompts_of(spec), make_trainer(tmp_path, spec, model, words, rollout))
        assert_exact(fields, model)
        assert all(len(run) == 1 for number in SEEDS for run in written(fields, number))


def plain_setting() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    tokenizer = build_tokenizer(["up", "wait", "fall asleep"], ["step and of"])
    return build_model(tokenizer), tokenizer


def test_a_failed_episode_has_no_reward_and_spoils_no_other(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec([CRASHING_SEEDS + 3, FAILING_RESET_SEEDS, ENDLESS_REWARD_SEEDS + 3, *SEEDS[3:]])
    model, tokenizer = plain_setting()
    fields = RolloutFunction(spec, fallback="up")(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))
    assert fields["environment_reward"][:3] == [None, None, None]
    assert None not in fields["environment_reward"][3:]
    assert fields["episode_length"][:3] == [1, 0, 1], "what it failed at does not count"
    assert max(fields["episode_reward"]) <= 0.25 * 10
    assert fields["env_mask"][1] == [0], "nothing was written after a reset that failed"
    assert_exact(fields, model)


def test_an_environment_that_mostly_fails_ends_the_training(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec([FAILING_RESET_SEEDS + number for number in range(8)])
    model, tokenizer = plain_setting()
    with pytest.raises(OpenEnvError, match="these stairs are closed"):
        RolloutFunction(spec)(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))


def test_what_is_sampled_depends_on_the_step_and_the_call_alone(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec()
    model, tokenizer = plain_setting()
    trainer = make_trainer(tmp_path, spec, model, tokenizer)

    def played(rollout: RolloutFunction, step: int) -> Any:
        trainer.state.global_step = step
        return rollout(prompts_of(spec)[:6], trainer)["completion_ids"]

    first, resumed = RolloutFunction(spec), RolloutFunction(spec)
    step_0, again_0, step_1 = played(first, 0), played(first, 0), played(first, 1)
    assert step_0 != again_0, "two batches of one step are not played alike"
    assert played(resumed, 1) == step_1
    trained: Any = trainer.model
    trained.eval()
    assert played(RolloutFunction(spec), 1) != step_1
    assert not trained.training, "the model is left in the mode it was in"


def test_sessions_grow_with_the_batch_and_are_kept(
    make_spec: Any, stairs_server: RunningServer, tmp_path: Path
) -> None:
    spec = make_spec()
    model, tokenizer = plain_setting()
    trainer, rollout = make_trainer(tmp_path, spec, model, tokenizer), RolloutFunction(spec)
    rollout(prompts_of(spec)[:4], trainer)
    stairs_server.wait_for_sessions(4)
    assert len(rollout(prompts_of(spec), trainer)["prompt_ids"]) == 12
    assert len(rollout(prompts_of(spec)[:2], trainer)["prompt_ids"]) == 2
    stairs_server.wait_for_sessions(12)
    spec.close()
    stairs_server.wait_for_sessions(0)
    with pytest.raises(ConfigurationError, match="was closed"):
        rollout(prompts_of(spec), trainer)


def test_a_dataset_of_ones_own_is_played_with_its_prompts(make_spec: Any, tmp_path: Path) -> None:
    own = Dataset.from_dict({"prompt": [f"move {seed} times" for seed in (1, 2)], "seed": [1, 2]})
    spec = make_spec(tasks=own)
    model, tokenizer = plain_setting()
    rollout = RolloutFunction(spec)
    trainer = make_trainer(tmp_path, spec, model, tokenizer, rollout)
    played = rollout([prompt for prompt in prompts_of(spec) for _ in range(4)], trainer)
    assert played["opening"] == ["step of 2"] * 4 + ["step of 3"] * 4
    trainer.train()
    assert trainer.state.global_step == 2


def test_a_prompt_of_another_dataset_is_refused(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec()
    model, tokenizer = plain_setting()
    with pytest.raises(ConfigurationError, match="Expected a prompt of the train_dataset"):
        RolloutFunction(spec)(["hello"], make_trainer(tmp_path, spec, model, tokenizer))


def test_a_first_observation_that_leaves_no_room_is_an_error(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec(instructions="up " * 4096)
    tokenizer = chat_tokenizer(CHATML)
    rollout = RolloutFunction(spec, actions="text")
    with pytest.raises(ConfigurationError, match="max_context is 4096"):
        rollout(prompts_of(spec), make_trainer(tmp_path, spec, chat_model(tokenizer), tokenizer))


class TestSeveralEnvironments:
    @pytest.mark.parametrize("actions", ["tools", "text"])
    def test_each_prompt_is_played_in_its_own(self, make_spec: Any, tmp_path: Path, actions: Any) -> None:
        low, high = make_spec([0, 4, 8, 12], system_prompt="Low."), make_spec([3, 7], max_turns=2)
        specs = EnvSpecs({"low": low, "high": high})
        tokenizer = chat_tokenizer(QWEN3)
        model = chat_model(tokenizer)
        rollout = RolloutFunction(specs, actions=actions, max_action_tokens=6, fallback="up", unreadable="tell")
        prompts = list(specs.train_dataset["prompt"])
        fields = rollout(prompts, make_trainer(tmp_path, low, model, tokenizer, rollout))
        assert_exact(fields, model)
        assert fields["environment_name"] == ["low", "high", "low", "low", "high", "low"]
        for number, name in enumerate(fields["environment_name"]):
            shown = tokenizer.decode(fields["prompt_ids"][number])
            assert ("Low." in shown, "step of 1" in shown, "step of 4" in shown) == (
                name == "low",
                name == "low",
                name == "high",
            )
            assert fields["episode_length"][number] <= (6 if name == "low" else 2)

    def test_a_training_learns_from_each_environment_s_rewards(self, make_spec: Any, tmp_path: Path) -> None:
        specs = EnvSpecs(
            {"low": make_spec(), "high": make_spec([3, 7], max_turns=2)}, order=["high", *["low"] * 12, "high"]
        )
        model, tokenizer = plain_setting()
        settings = {"max_steps": 4, "per_device_train_batch_size": 8, "shuffle_dataset": False}
        trainer = make_trainer(tmp_path, specs, model, tokenizer, specs.rollout_func, **settings)
        with quiet_libraries():
            trainer.train()
        rows = [row for row in trainer.state.log_history if "episode/low/length" in row]
        assert ["episode/high/length" in row for row in rows] == [True, False, False, False]
        assert rows[0]["episode/high/length"] == 2
        assert 2 < rows[0]["episode/low/length"] <= 6
        assert "rewards/high_reward/mean" in rows[0]

    def test_prompts_of_others_and_another_order_are_refused(self, make_spec: Any, tmp_path: Path) -> None:
        specs = EnvSpecs({"low": make_spec()})
        model, tokenizer = plain_setting()
        trainer = make_trainer(tmp_path, specs, model, tokenizer, specs.rollout_func)
        with pytest.raises(ConfigurationError, match="prompt of the train_dataset of these EnvSpecs"):
            specs.rollout_func(prompts_of(make_spec()), trainer)
        for order in (["high"], ["low"] * 13):
            with pytest.raises(ConfigurationError, match="Expected the order of the rows of low"):
                _ = EnvSpecs(specs.specs, order).train_dataset


class Watched(CurriculumSampler):
    """A sampler that measures each task by itself, and keeps what was drawn and observed."""

    def __init__(self, tasks: Any) -> None:
        super().__init__(tasks, 4, key=None, cost="tokens", success_threshold=0.25)
        self.drawn: list[Any] = []
        self.observed: list[Any] = []

    def sample(self, n: int) -> list[dict[str, Any]]:
        self.drawn.append(super().sample(n))
        return [*self.drawn[-1]]

    def update(self, task: Any, rewards: Any, costs: Any = None) -> None:
        self.observed.append((task, list(rewards), list(costs)))
        super().update(task, rewards, costs)


class TestSampler:
    def two_groups(self, spec: EnvSpec | EnvSpecs) -> list[Any]:
        return [prompt for prompt in spec.train_dataset["prompt"][:2] for _ in range(4)]

    def test_a_group_plays_what_was_drawn_and_the_sampler_observes_it(self, make_spec: Any, tmp_path: Path) -> None:
        tasks: list[dict[str, Any]] = [{"seed": 1, "difficulty": 7}, {"seed": CRASHING_SEEDS + 3, "answer": "none"}]
        sampler = SequentialSampler(tasks)
        spec = make_spec(sampler=sampler)
        model, tokenizer = plain_setting()
        rollout = RolloutFunction(spec, fallback="up")
        fields = rollout(self.two_groups(spec), make_trainer(tmp_path, spec, model, tokenizer, rollout))
        assert fields["opening"] == ["step of 2"] * 4 + ["step of 4"] * 4
        assert fields["seed"] == [1] * 4 + [CRASHING_SEEDS + 3] * 4, "a column of the dataset is the drawn task's"
        assert fields["difficulty"] == [7] * 4 + [None] * 4
        assert fields["answer"] == [None] * 4 + ["none"] * 4
        assert fields["environment_reward"][4:] == [None] * 4
        assert (sampler.counters.groups, sampler.counters.failed) == (1, 4), "a failure is no reward of 0"
        assert_exact(fields, model)

    def test_a_list_of_tasks_may_have_their_difficulty_and_group(self, make_spec: Any, tmp_path: Path) -> None:
        tasks = [{"id": f"t{seed}", "seed": seed, "difficulty": seed, "group": "a"} for seed in range(3)]
        spec = make_spec(tasks=tasks, sampler=CurriculumSampler(tasks, 4))
        model, tokenizer = plain_setting()
        fields = spec.rollout_func(self.two_groups(spec), make_trainer(tmp_path, spec, model, tokenizer))
        assert fields["difficulty"] == fields["seed"]
        assert fields["opening"] == [f"step of {1 + seed}" for seed in fields["seed"]]
        misspelt = make_spec(tasks=[{"seed": 1, "difficult": 1}])
        with pytest.raises(ConfigurationError, match="reset does not take 'difficult'"):
            misspelt.rollout_func(prompts_of(misspelt), make_trainer(tmp_path, misspelt, model, tokenizer))

    def test_costs_are_the_tokens_that_were_written(self, make_spec: Any, tmp_path: Path) -> None:
        sampler = Watched([{"seed": 1}])
        spec = make_spec(sampler=sampler)
        model, tokenizer = plain_setting()
        fields = spec.rollout_func(self.two_groups(spec), make_trainer(tmp_path, spec, model, tokenizer))
        observed = [(rewards, costs) for _, rewards, costs in sampler.observed]
        rewards, tokens = fields["environment_reward"], list(map(sum, fields["env_mask"]))
        assert observed == [(rewards[:4], tokens[:4]), (rewards[4:], tokens[4:])]
        assert sampler.counters.groups == 2, "groups of one task are two"

    def test_what_is_evaluated_is_the_row_itself(self, make_spec: Any, tmp_path: Path) -> None:
        sampler = Watched([{"seed": 3}])
        spec = make_spec([0, 1], sampler=sampler)
        model, tokenizer = plain_setting()
        trainer = make_trainer(tmp_path, spec, model, tokenizer)
        model.train(False)
        fields = spec.rollout_func(self.two_groups(spec), trainer)
        assert fields["opening"] == ["step of 1"] * 4 + ["step of 2"] * 4
        assert fields["seed"] == [0] * 4 + [1] * 4
        assert not sampler.drawn
        assert not sampler.observed

    def test_a_dataset_s_prompts_go_with_its_tasks(self, make_spec: Any, tmp_path: Path) -> None:
        own = Dataset.from_dict({"prompt": ["Climb low.", "Climb high."], "seed": [0, 3]})
        spec = make_spec(tasks=own, sampler=SequentialSampler(list(own)[::-1]))
        tokenizer = chat_tokenizer(CHATML)
        rollout = RolloutFunction(spec, actions="text", max_action_tokens=4, fallback="up")
        fields = rollout(self.two_groups(spec), make_trainer(tmp_path, spec, chat_model(tokenizer), tokenizer))
        shown = [tokenizer.decode(ids) for ids in fields["prompt_ids"]]
        assert ["Climb high." in text and "step of 4" in text for text in shown] == [True] * 4 + [False] * 4
        assert ["Climb low." in text and "step of 1" in text for text in shown] == [False] * 4 + [True] * 4

    def test_among_several_environments_only_those_with_one_draw(self, make_spec: Any, tmp_path: Path) -> None:
        sampler = Watched([{"height": 2, "group": "new"}])
        specs = EnvSpecs({"fixed": make_spec([0]), "drawn": make_spec([0], sampler=sampler)})
        model, tokenizer = plain_setting()
        fields = specs.rollout_func(self.two_groups(specs), make_trainer(tmp_path, specs, model, tokenizer))
        assert fields["opening"] == ["step of 1"] * 4 + ["step of 2"] * 4
        assert fields["seed"] == [0] * 4 + [None] * 4
        assert fields["group"] == [None] * 4 + ["new"] * 4
        assert fields["environment_name"] == ["fixed"] * 4 + ["drawn"] * 4

    def test_a_resumed_training_draws_and_learns_the_same(self, make_spec: Any, tmp_path: Path) -> None:
        tasks = [{"seed": seed} for seed in range(20)]
        settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}

        def trained(folder: Path, checkpoint: Path | None = None) -> Watched:
            sampler = Watched(tasks)
            spec = make_spec(sampler=sampler)
            torch.manual_seed(3)
            model, tokenizer = plain_setting()
            trainer = make_trainer(folder, spec, model, tokenizer, spec.rollout_func, **settings)
            with quiet_libraries():
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
            return sampler

        whole = trained(tmp_path / "whole")
        resumed = trained(tmp_path / "resumed", tmp_path / "whole" / "checkpoint-2")
        assert len(whole.drawn) == 4
        assert resumed.drawn == whole.drawn[2:]
        assert resumed.state_dict() == whole.state_dict()
        assert whole.counters.signal_groups > 0

    def test_a_trainer_that_draws_no_tasks_is_refused(
        self, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = make_spec(sampler=Watched([{"seed": 3}]))
        with pytest.raises(ConfigurationError, match="no sampler beside environment_factory, with which TRL plays"):
            _ = spec.environment_factory
        model, tokenizer = plain_setting()
        trainer = make_trainer(tmp_path, spec, model, tokenizer)
        monkeypatch.setattr(type(trainer.accelerator), "num_processes", 2)
        with pytest.raises(ConfigurationError, match=r"a training in one process, .*; got 2 processes"):
            spec.rollout_func(self.two_groups(spec), trainer)

    def test_a_sampler_gives_a_task_for_each_group(self, make_spec: Any, tmp_path: Path) -> None:
        sampler: Any = Watched([{"seed": 3}])
        spec = make_spec(sampler=sampler)
        sampler.sample = lambda n: [{"seed": 3}]
        model, tokenizer = plain_setting()
        with pytest.raises(ConfigurationError, match="Expected 2 tasks of the sampler, got 1"):
            spec.rollout_func(self.two_groups(spec), make_trainer(tmp_path, spec, model, tokenizer))


def test_an_illegal_answer_costs_what_is_learned_from(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec()
    model, tokenizer = plain_setting()
    rollout = RolloutFunction(spec, fallback="up", illegal_penalty=0.5)
    fields = rollout(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer, rollout))
    assert sum(fields["illegal_actions"])
    assert list(map(len, fields["illegal_texts"])) == fields["illegal_actions"]
    learned = [
        reward - 0.5 * illegal
        for reward, illegal in zip(fields["environment_reward"], fields["illegal_actions"], strict=True)
    ]
    assert fields["training_reward"] == spec.reward_funcs[0](**fields) == pytest.approx(learned)


def test_an_episode_is_cut_off_at_max_context(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec(max_turns=100)
    tokenizer = chat_tokenizer(CHATML)
    rollout = RolloutFunction(spec, actions="text", max_action_tokens=6, max_context=150)
    trainer = make_trainer(tmp_path, spec, chat_model(tokenizer), tokenizer, rollout)
    fields = rollout(prompts_of(spec), trainer)
    lengths = [
        len(prompt) + len(done) for prompt, done in zip(fields["prompt_ids"], fields["completion_ids"], strict=True)
    ]
    assert max(lengths) <= 150
    assert "max_context" in fields["cut_by"]


def test_wrong_settings_are_refused(make_spec: Any) -> None:
    with pytest.raises(ConfigurationError, match="'tools', 'text' or 'token'"):
        RolloutFunction(make_spec(), actions="moves")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'tell' or 'end'"):
        RolloutFunction(make_spec(), unreadable="ask")  # type: ignore[arg-type]


def test_a_training_learns_from_the_rewards(make_spec: Any, tmp_path: Path) -> None:
    spec = make_spec(max_turns=4)
    model, tokenizer = plain_setting()
    before = torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()])
    rollout = RolloutFunction(spec, fallback="wait")
    trainer = make_trainer(tmp_path, spec, model, tokenizer, rollout, max_steps=12, per_device_train_batch_size=12)
    with quiet_libraries():
        trainer.train()
    after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert not torch.equal(before, after.cpu())
    rows = [row for row in trainer.state.log_history if "episode/reward" in row]
    assert len(rows) == 12
    assert sum(row["episode/illegal_actions"] for row in rows[-3:]) < sum(
        row["episode/illegal_actions"] for row in rows[:3]
    )


class Walk(Action):
    move: Literal["up", "wait"]


class Map(Observation):
    text: str
    cells: list[list[list[int]]]


class Screen(Observation):
    text: str
    cells: Annotated[np.ndarray[Any, Any], NDArray("uint8", (64, 64, 3), picture=True)]


class MapEnvironment(Environment[Walk, Map, State]):
    """Shows a map of cells, each with its kind, colour and state."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    CELLS: ClassVar = [[[2, 5, 0]] * 64] * 64

    def reset(self, seed: int | None = None) -> Any:
        return Map(text="step of 1", cells=self.CELLS)

    def step(self, action: Walk) -> Any:
        return Map(text="step of 2", cells=self.CELLS, reward=1.0, done=True)

    @property
    def state(self) -> State:
        return State()


class ScreenEnvironment(MapEnvironment):
    """Shows the same as pixels."""

    def reset(self, seed: int | None = None) -> Any:
        return Screen(text="step of 1", cells=np.array(self.CELLS, np.uint8))


@pytest.mark.parametrize(("environment", "observation"), [(MapEnvironment, Map), (ScreenEnvironment, Screen)])
def test_only_declared_pictures_are_refused(
    environment: type[MapEnvironment], observation: type[Observation], forced: Any, tmp_path: Path
) -> None:
    app = create_fastapi_app(environment, Walk, observation)
    with RunningServer(app) as server, EnvSpec(server.url, tasks=[{"seed": 1}], max_turns=2) as spec:
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, [call("up", "walk") + END])
        trainer = make_trainer(tmp_path, spec, model, tokenizer)
        if observation is Screen:
            with pytest.raises(ConfigurationError, match="shows pictures, and TRL takes none"):
                spec.rollout_func(prompts_of(spec), trainer)
        else:
            assert spec.rollout_func(prompts_of(spec), trainer)["environment_reward"] == [1.0]


class UnrewardedEnvironment(MapEnvironment):
    """Leaves rewards to the trainer's own functions."""

    def step(self, action: Walk) -> Any:
        return Map(text="step of 2", cells=self.CELLS, done=True)


def test_an_environment_without_rewards_is_left_to_functions_of_the_trainer(forced: Any, tmp_path: Path) -> None:
    tasks = [{"seed": seed} for seed in range(8)]
    app = create_fastapi_app(UnrewardedEnvironment, Walk, Map, max_concurrent_envs=8)
    with RunningServer(app) as server, EnvSpec(server.url, tasks=tasks, max_turns=2) as spec:
        model, tokenizer = tool_setting(spec)
        forced(tokenizer, [call("up", "walk") + END] * len(tasks))
        fields = spec.rollout_func(prompts_of(spec), make_trainer(tmp_path, spec, model, tokenizer))
    assert fields["environment_reward"] == [None] * len(tasks)
    assert fields["failure"] == ["no_reward"] * len(tasks)
    assert all(map(any, fields["env_mask"])), "what was written is there to be rewarded"


class Window(Observation):
    step: int
    cells: Annotated[np.ndarray[Any, Any], NDArray("uint8", (64, 64, 3), picture=True)]


class WindowEnvironment(MapEnvironment):
    """Shows pixels, and no text beside them."""

    def reset(self, seed: int | None = None) -> Any:
        return Window(step=1, cells=np.array(self.CELLS, np.uint8))


def test_the_opening_leaves_out_a_declared_picture() -> None:
    app = create_fastapi_app(WindowEnvironment, Walk, Window)
    with RunningServer(app) as server, EnvSpec(server.url, tasks=[{"seed": 1}], max_turns=2) as spec:
        environment = spec.environment_factory()
        environment.reset(**spec.train_dataset[0])
        assert "step" in environment.opening
        assert "cells" not in environment.opening
