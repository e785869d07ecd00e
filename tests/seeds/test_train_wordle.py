"""The tutorial's training script, whose environments are clients, runs as it was written."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.models.bigram_models import bigram_model
from tests.support.servers import RunningServer
from tests.support.snippets import blocks_of
from transformers.utils.chat_template_utils import get_json_schema

from openenv.core.client.tools import EPISODE_OVER
from openenv.core.env_server.app import create_fastapi_app
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.quiet import quiet_libraries
from wordle_env import WordleAction, WordleEnv, WordleObservation
from wordle_env.server.wordle_environment import WordleEnvironment
from wordle_env.words import word_list

(SCRIPT,) = (block.text for block in blocks_of(Path(__file__).with_name("train_wordle.md")))
SEED = 1
SECRET = word_list(5).secret(SEED)
# What TRL no longer has, where the server and the model are, and a size for a CPU.
HERE = {
    '    model_id="Qwen/Qwen3-1.7B",\n': "",
    '    vllm_device="cuda:0",\n': "",
    '"https://openenv-wordle.hf.space"': "ADDRESS",
    '"Qwen/Qwen3-1.7B"': "MODEL",
    '"./wordle-agent"': "OUTPUT",
    "max_steps=100": "max_steps=2, logging_steps=1, save_strategy='no', use_cpu=True, bf16=False, disable_tqdm=True",
    "per_device_train_batch_size=2": "per_device_train_batch_size=2, gradient_accumulation_steps=2",
}


class KnownWord(WordleEnvironment):
    """Always has the same secret word, for a model that knows three words to win at times."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, word_length: int = 5) -> WordleObservation:
        assert (seed, episode_id, word_length) == (None, None, 5)
        return super().reset(SEED)


def guesser(folder: Path) -> str:
    """Save a model that calls ``guess`` in every turn, each time with one of four words at random."""
    schema = get_json_schema(WordleEnv(base_url="http://localhost:1").guess)
    words = [f'"{word}"' for word in ("stare", "house", "qqqqq", SECRET)]
    tokenizer = build_tool_tokenizer([schema], [SCRIPT], [word.strip('"') for word in words])
    opening = '<tool_call>\n{"name": "guess", "arguments": {'
    table = {
        "<|im_start|>assistant\n": [opening],
        opening: ['"word": '],
        '"word": ': words,
        **{word: ["}}\n</tool_call>"] for word in words},
    }
    bigram_model(tokenizer, table).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_model_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    program = SCRIPT
    for there, here in HERE.items():
        assert program.count(there) == 1, there
        program = program.replace(there, here)
    app = create_fastapi_app(KnownWord, WordleAction, WordleObservation, max_concurrent_envs=4)
    with RunningServer(app) as server, quiet_libraries():
        names: dict[str, Any] = {
            "ADDRESS": server.url,
            "MODEL": guesser(tmp_path / "model"),
            "OUTPUT": str(tmp_path / "run"),
        }
        exec(program, names)
        trainer = names["trainer"]
        server.wait_for_sessions(4)
        for env in trainer.environments:
            env.close()

    assert [tool.__name__ for tool in trainer.tools] == ["guess"]
    assert trainer.state.global_step == 2
    logged = trainer.state.log_history[0]
    assert logged["tools/call_frequency"] >= 1.0
    assert logged["tools/failure_frequency"] == 0.0, "a refused guess is told, and is no failure"
    # What the model saw, as TRL logs it.
    assert all("Find the secret 5-letter word in 6 guesses." in str(prompt) for prompt in trainer._logs["prompt"])
    played = "".join(map(str, trainer._logs["completion"]))
    assert "guesses left." in played
    assert "word list" in played, "why a guess was refused"
    assert EPISODE_OVER in played
    for env in trainer.environments:
        guesses = [result.observation.guesses[-1] for result in env.trajectory]
        assert set(guesses) <= {"STARE", "HOUSE", SECRET.upper()}
        assert len(guesses) == len(set(guesses)), "nothing is sent after the end"
        (reward,) = names["reward_func"]([env])
        assert reward == (round(1.1 - 0.1 * len(guesses), 1) if SECRET.upper() in guesses else 0.0)
