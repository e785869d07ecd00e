"""Training whose only reward is a comparison: the environment gives none, and a judge compares the episodes.

The judge is a script in the training, and a model of transformers in a test of its own: a small model cannot tell good
manners from bad ones.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tests.support.models.bigram_models import bigram_model
from tests.support.models.chat_models import chat_model, chat_tokenizer
from tests.support.models.judge_server import JudgeServer
from tests.support.models.served_model import ServedModel
from tests.support.models.trainers import IGNORED, make_trainer
from tests.support.servers import RunningServer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from openenv import Action, Environment, Observation, State
from openenv.core.env_server import create_fastapi_app
from openenv.core.rubrics import GroupJudge, VerdictError
from openenv.train import EnvSpec, GroupReward
from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.quiet import quiet_libraries
from openenv.train.trl.rollout_function import RolloutFunction

pytestmark = pytest.mark.filterwarnings(IGNORED)

WORDS = ["please", "now", "maybe", "never"]
ASKED = 3
"""Words in an episode."""


class Word(Action):
    """Say a word."""

    word: Literal["please", "now", "maybe", "never"]


class Heard(Observation):
    """What was said last."""

    text: str


class Request(Environment[Word, Heard, State]):
    """Ask for the salt, in three words. There is no reward: whether it was polite is for others to say."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def reset(self, seed: int | None = None) -> Heard:
        self._said = 0
        return Heard(text="ask for the salt")

    def step(self, action: Word) -> Heard:
        self._said += 1
        return Heard(text=f"you said {action.word}", done=self._said == ASKED)

    @property
    def state(self) -> State:
        return State()


@pytest.fixture(scope="module")
def spec() -> Iterator[EnvSpec]:
    app = create_fastapi_app(Request, Word, Heard, max_concurrent_envs=32)
    with RunningServer(app) as server, EnvSpec(server.url, num_tasks=200, max_turns=ASKED) as spec:
        yield spec


def by_manners(prompt: str) -> str:
    """Prefer the attempts that say please more often."""
    attempts = re.findall(r'<attempt number="(\d+)">\n(.*?)\n</attempt>', prompt, re.DOTALL)
    polite = {number: text.count("you said please") for number, text in attempts}
    return json.dumps({number: {"reason": "manners", "score": count / ASKED} for number, count in polite.items()})


def test_a_tiny_policy_learns_from_a_comparison_alone(spec: EnvSpec, tmp_path: Path) -> None:
    tokenizer = build_tokenizer(WORDS, ["ask for the salt you said"])
    torch.manual_seed(1)
    judge = JudgeServer(by_manners)
    said: list[float] = []

    def note(trajectory: list[list[Any]], **_: Any) -> list[None]:
        words = [step.arguments["text"] for steps in trajectory for step in steps]
        said.append(words.count("please") / len(words))
        return [None] * len(trajectory)

    with judge.server, quiet_libraries():
        trainer = make_trainer(
            tmp_path,
            build_model(tokenizer, seed=1),
            tokenizer,
            train_dataset=spec.train_dataset,
            rollout_func=RolloutFunction(spec, actions="token"),
            reward_funcs=[GroupReward(GroupJudge(judge.client()), record=tmp_path / "judge.jsonl"), note],
            max_steps=12,
            per_device_train_batch_size=32,
            num_generations=8,
            max_completion_length=64,
            learning_rate=2e-2,
            lr_scheduler_type="constant",
            logging_steps=1,
        )
        trainer.train()
    rows = [row for row in trainer.state.log_history if "episode/group_reward" in row]
    assert len(said) == 12
    assert rows
    assert not any("episode/independent_reward" in row for row in rows), "the environment gives none"
    first, last = said[0], sum(said[-3:]) / 3
    assert first < 0.3 < 0.8 < last, said
    assert judge.prompts[0].count("ask for the salt") == 1, "what all attempts begin with is shown once"
    lines = (tmp_path / "judge.jsonl").read_text().splitlines()
    assert any(json.loads(line)["exchanges"] for line in lines)


class TinyJudge:
    """A causal language model that answers prompts through its chat template."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
        self._served = ServedModel(model, tokenizer)
        self._tokenizer = tokenizer

    def __call__(self, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        tokens: Any = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        ((written, _),) = self._served.written([tokens], 24, 1.0, [int(self._tokenizer.eos_token_id)])
        return str(self._tokenizer.decode(written, skip_special_tokens=True))


ATTEMPTS = [[{"role": "agent", "content": word}] for word in ("now", "please")]


def test_a_model_of_transformers_judges() -> None:
    tokenizer = chat_tokenizer()
    # What so small a model can be made to write: one piece after the other, from the line break before an answer.
    pieces = ['{"1": {"reason": "rude", "score": 0.2}, ', '"2": {"reason": "polite", "score": 0.9}}']
    tokenizer.add_tokens(pieces)
    judge = JudgeServer(TinyJudge(bigram_model(tokenizer, {"Ċ": pieces[:1], pieces[0]: pieces[1:]}), tokenizer))
    with judge.server:
        reward = GroupReward(GroupJudge(judge.client()))
        completions = [attempt for attempt in ATTEMPTS for _ in range(2)]
        assert reward(prompts=["Ask."] * 4, completions=completions) == [0.2, 0.2, 0.9, 0.9]


def test_a_model_that_cannot_judge_gives_no_reward() -> None:
    tokenizer = chat_tokenizer()
    judge = JudgeServer(TinyJudge(chat_model(tokenizer), tokenizer))
    with judge.server, pytest.raises(VerdictError, match="Expected one object of JSON and nothing else"):
        GroupReward(GroupJudge(judge.client()))(prompts=["Ask."] * 2, completions=ATTEMPTS)
    assert "Your last answer could not be read" in judge.prompts[1]
