"""The guide's rollout functions run as they were written, with the helper that newer versions of TRL have dropped."""

from pathlib import Path
from typing import Any, Optional

import pytest
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.models.chat_models import CHATML, chat_model, chat_tokenizer, save_chat_model
from tests.support.models.served_model import ServedModel
from tests.support.models.trainers import IGNORED, make_trainer, vllm_installed
from tests.support.servers import RunningServer
from tests.support.snippets import blocks_of
from transformers import AutoModelForCausalLM, AutoTokenizer

import openenv
import openenv.train.compat
from echo_env.server.app import app as echo_app
from openenv.train.quiet import quiet_libraries
from textarena_env import TextArenaAction, TextArenaEnv, rewards

pytestmark = pytest.mark.filterwarnings(IGNORED)

ECHO, ROLLOUT_ONCE, REWARDS = (block.text for block in blocks_of(Path(__file__).with_name("rollout_func.md")))
# Where the echo environment and the model are, and a size for a CPU.
ECHO_HERE = {
    'EchoEnv.from_hub("openenv/echo-env")': "EchoEnv(base_url=ADDRESS)",
    '"Qwen/Qwen2.5-0.5B-Instruct"': "MODEL",
    "num_train_epochs=1": 'max_steps=1, use_cpu=True, bf16=False, report_to="none", output_dir=OUTPUT',
    "max_completion_length=2048": "max_completion_length=8",
    "gradient_accumulation_steps=4": "gradient_accumulation_steps=1",
}


def test_echo_is_trained_with_colocated_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ECHO
    for there, here in ECHO_HERE.items():
        assert program.count(there) == 1
        program = program.replace(there, here)
    folder = save_chat_model(tmp_path / "model", CHATML)
    served = ServedModel(AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    with RunningServer(echo_app) as server, vllm_installed(monkeypatch, served), quiet_libraries():
        names: dict[str, Any] = {
            "ADDRESS": server.url,
            "MODEL": folder,
            "OUTPUT": str(tmp_path / "run"),
            "Dataset": Dataset,
        }
        exec(program, names)
        names["client"].close()
    trainer = names["trainer"]
    (row,) = [row for row in trainer.state.log_history if "reward" in row]
    assert row["reward"] > 0, "a tenth of the message's length"
    assert trainer.state.global_step == 1


def scale_repetition_score(previous_occurrences: int, max_occurrences: int) -> float:
    """As the guide's script has it: the less a guess was made before, the better."""
    return 1.0 if max_occurrences == 0 else (max_occurrences - previous_occurrences) / max_occurrences


def make_user_prompt(prompt: str, messages: Any) -> str:
    return "\n".join([prompt, *(message.content for message in messages)])[-200:]


def test_wordle_is_played_turn_by_turn(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(CHATML)
    trainer = make_trainer(tmp_path, chat_model(tokenizer), tokenizer, max_completion_length=8)
    names: dict[str, Any] = {
        "GRPOTrainer": Any,
        "AutoTokenizer": Any,
        "TextArenaEnv": TextArenaEnv,
        "TextArenaAction": TextArenaAction,
        "generate_rollout_completions": openenv.train.compat.generate_rollout_completions,
        "make_user_prompt": make_user_prompt,
        "extract_guess": rewards.extract_guess,
        "extract_wordle_feedback": rewards.extract_wordle_feedback,
        "extract_feedback_counts": rewards.extract_feedback_counts,
        "scale_repetition_score": scale_repetition_score,
        "List": list,
        "Optional": Optional,
        "Dict": dict,
    }
    exec(ROLLOUT_ONCE, names)
    exec(REWARDS, names)
    with openenv.make("textarena").sync() as env:
        episode = names["rollout_once"](trainer, env, tokenizer, "Play Wordle.", "You guess words.", max_turns=3)
    assert 1 <= len(episode["raw_rewards"]) <= 3
    assert len(episode["completion_ids"]) == len(episode["logprobs"])
    assert "You guess words." in tokenizer.decode(episode["prompt_ids"])
    for name in ("correct", "green", "yellow", "repetition"):
        given = {f"{name}_reward": [episode[f"{name}_reward"]]}
        function = names[
            "reward_greens" if name == "green" else "reward_yellows" if name == "yellow" else f"reward_{name}"
        ]
        assert function(["a completion"], **given) == [float(episode[f"{name}_reward"])]
