"""Train a model to play Wordle by calling a tool: a warm-up on a scripted player's games, then GRPO.

The environment is the real one, ``wordle``; each game is a task, which says the seed and the length of the secret word.
`EnvSpec` makes of it what TRL's ``GRPOTrainer`` takes, in either of TRL's two ways, by ``--way``:

- ``environment_factory``: TRL plays the games, with the environment's tool ``wordle`` as a method;
- ``rollout_func``: OpenEnv plays them, all at once.

On a CPU, in less than ten minutes, a tiny model with random weights learns to call the tool from games of a careless
player, and then to win from its own games::

    python examples/wordle.py
    python examples/wordle.py --way rollout_func

On a GPU, a pretrained model (Qwen/Qwen3-1.7B on one of 80 GB) plays the whole game of five letters, without a warm-up::

    python examples/wordle.py --way rollout_func --model Qwen/Qwen3-1.7B --letters 5 --words 1000 --steps 200
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars  # type: ignore[import-untyped]
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv.train import EnvSpec, build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.quiet import quiet_libraries
from wordle_env.models import WordleObservation
from wordle_env.player import possible_secrets
from wordle_env.rules import ABSENT, ELSEWHERE, IN_PLACE, MAX_GUESSES
from wordle_env.words import WordList, word_list

CARELESSNESS = 0.5
MARKS = (IN_PLACE, ELSEWHERE, ABSENT)
EVAL_TASKS = 40
WON = "rewards/correct/mean"
SYSTEM_PROMPT = "You play Wordle. Call the tool for each guess, and mind the marks of the guesses before."

Message = dict[str, Any]


class CarelessPlayer:
    """Guesses the first word in the alphabet that agrees with the board, but every other time just any word.

    So it leaves something to learn.

    Args:
        words: The words that it knows.
        seed: Of its choices.
    """

    def __init__(self, words: WordList, seed: int) -> None:
        self._words = words
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret

    def __call__(self, board: WordleObservation) -> str:
        """Choose the next guess."""
        if self._random.random() < CARELESSNESS:
            return self._random.choice(self._words.secrets)
        return possible_secrets(board, self._words)[0]


def play(environment: Any, task: dict[str, Any], player: CarelessPlayer) -> list[Message]:
    """Play a game through the same methods that TRL calls, and write it down as a conversation."""
    messages: list[Message] = [{"role": "user", "content": environment.reset(**task)}]
    while not environment.done and len(environment.trajectory) < MAX_GUESSES:
        word = player(environment.last_result.observation)
        call = {"type": "function", "function": {"name": "wordle", "arguments": {"word": word}}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": "wordle", "content": environment.wordle(word=word)})
    # The model has to learn, too, that it ends its turn without a call when the game is over.
    return [*messages, {"role": "assistant", "content": ""}]


def steps_of(columns: dict[str, Any]) -> list[Any]:
    """The steps of each game, from either way; ``None`` for a game in which the environment failed."""
    if columns.get("environments"):
        return [None if game.error else game.trajectory for game in columns["environments"]]
    games = zip(columns["trajectory"], columns["environment_reward"], strict=True)
    return [None if reward is None else steps for steps, reward in games]


def correct(**columns: Any) -> list[float | None]:
    """Give the environment's own reward, 1 for a game that was won."""
    return [None if steps is None else sum(step.reward or 0.0 for step in steps) for steps in steps_of(columns)]


def most_marks(steps: Sequence[Any] | None, mark: str) -> float | None:
    """The share of a guess's letters that have the mark, in the game's best guess."""
    if steps is None:
        return None
    boards = [step.observation for step in steps if step.problem is None]
    rows = [row.split() for board in boards for row in board.splitlines() if row.endswith(MARKS)]
    return max((sum(letter.endswith(mark) for letter in row) / len(row) for row in rows), default=0.0)


def greens(**columns: Any) -> list[float | None]:
    """Reward letters in their place."""
    return [most_marks(steps, IN_PLACE) for steps in steps_of(columns)]


def yellows(**columns: Any) -> list[float | None]:
    """Reward letters elsewhere in the word."""
    return [most_marks(steps, ELSEWHERE) for steps in steps_of(columns)]


def repetition(**columns: Any) -> list[float | None]:
    """Punish guesses that the environment refused; those are nearly always words that were guessed before."""
    return [
        None if steps is None else -sum(step.problem is not None for step in steps) / MAX_GUESSES
        for steps in steps_of(columns)
    ]


def scripted_games(spec: EnvSpec, words: WordList, count: int, seed: int) -> list[list[Message]]:
    """Let the careless player play."""
    environment = spec.environment_factory()
    player = CarelessPlayer(words, seed)
    chance = random.Random(seed)  # noqa: S311  # a game, not a secret
    return [play(environment, chance.choice(spec.rows), player) for _ in range(count)]


def warmed_up(spec: EnvSpec, options: argparse.Namespace) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Make the tiny model and let it learn the careless player's games by heart, as far as it can."""
    secrets = {word_list(options.letters).secret(row["seed"]) for row in spec.rows}
    words = WordList(secrets=tuple(sorted(secrets)), guesses=frozenset(secrets))
    games = scripted_games(spec, words, options.transcripts, options.seed)
    schemas = spec.tools.schemas()
    texts = [message["content"] for game in games for message in game]
    tokenizer = build_tool_tokenizer(schemas, texts, values=words.secrets)
    model = build_model(tokenizer, hidden=64, layers=2, seed=options.seed, initializer_range=0.05)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list([{"messages": game, "tools": schemas} for game in games]),
            args=SFTConfig(
                output_dir=folder,
                num_train_epochs=1,
                per_device_train_batch_size=8,
                learning_rate=3e-3,
                lr_scheduler_type="cosine",
                adam_beta2=0.95,
                assistant_only_loss=True,
                seed=options.seed,
                **on_the_cpu(),
            ),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    # The trainer leaves its own wrapping on the model that it had.
    fresh = build_model(tokenizer, hidden=64, layers=2)
    fresh.load_state_dict(model.state_dict())
    return fresh, tokenizer


def on_the_cpu() -> dict[str, Any]:
    """Settings of both trainers for the tiny model."""
    return {
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def tiny_settings(options: argparse.Namespace) -> dict[str, Any]:
    """How the tiny model learns by GRPO."""
    return {
        "per_device_train_batch_size": options.rollouts,
        "per_device_eval_batch_size": options.rollouts,
        "max_completion_length": 256,
        "learning_rate": 2e-3,
        "lr_scheduler_type": "linear",
        "adam_beta2": 0.95,
        "seed": options.seed,
        **on_the_cpu(),
    }


def gpu_settings(options: argparse.Namespace) -> dict[str, Any]:
    """How a pretrained model learns by GRPO on one GPU."""
    return {
        "per_device_train_batch_size": options.group_size,
        "per_device_eval_batch_size": options.group_size,
        "gradient_accumulation_steps": options.rollouts // options.group_size,
        "max_completion_length": 2048,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "chat_template_kwargs": {"enable_thinking": False},
        "bf16": True,
        "seed": options.seed,
        "report_to": "none",
    }


class Progress(TrainerCallback):
    """Prints every ten steps how many games were won in them."""

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Read what TRL logs after each step."""
        won = [entry[WON] for entry in state.log_history if WON in entry][-10:]
        if WON in state.log_history[-1] and state.global_step % 10 == 0:
            print(f"step {state.global_step}: {sum(won) / len(won):.2f} of the games won", flush=True)  # noqa: T201


def make_trainer(spec: EnvSpec, options: argparse.Namespace, folder: str) -> GRPOTrainer:
    """Make the trainer. Its reward is a weighted sum of four streams."""
    model, tokenizer = (options.model, None) if options.model else warmed_up(spec, options)
    way = {options.way: getattr(spec, options.way)}
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=spec.train_dataset,
        eval_dataset=spec.train_dataset.select(range(min(len(spec.rows), EVAL_TASKS))),
        reward_funcs=[correct, greens, yellows, repetition],
        args=GRPOConfig(
            output_dir=folder,
            max_steps=options.steps,
            num_generations=options.group_size,
            reward_weights=[1.0, 0.2, 0.1, 0.2],
            temperature=1.0,
            top_k=0,
            scale_rewards="batch",
            loss_type="dapo",
            beta=0.0,
            logging_steps=1,
            **(gpu_settings(options) if options.model else tiny_settings(options)),
        ),
        callbacks=[Progress()],
        **way,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def main() -> None:
    """Train, and tell how many games were won before and after."""
    options = read_options()
    spec = EnvSpec(
        "wordle",
        tasks=options.words,
        system_prompt=SYSTEM_PROMPT if options.model else None,
        instructions=None if options.model else "",  # the tiny model knows the words of boards alone
        max_turns=MAX_GUESSES,
        reset={"word_length": options.letters},
    )
    set_seed(options.seed)
    disable_progress_bars()
    if not options.model:
        torch.set_num_threads(1)  # two are slower on so small a model
    with quiet_libraries(), spec, tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(spec, options, folder)
        before = trainer.evaluate()[f"eval_{WON}"]
        history = trainer.state.log_history  # which the training begins anew
        print(f"games won before GRPO: {before:.2f}", flush=True)  # noqa: T201
        trainer.train()
        after = trainer.evaluate()[f"eval_{WON}"]
        print(f"games won after {options.steps} steps of GRPO: {after:.2f}")  # noqa: T201
        if options.metrics:
            options.metrics.write_text(json.dumps([*history, *trainer.state.log_history], indent=1), encoding="utf-8")


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("environment_factory", "rollout_func"), default="environment_factory")
    parser.add_argument("--model", help="a pretrained model, for a GPU; by default the tiny one")
    parser.add_argument("--letters", type=int, default=4, help="length of the secret words")
    parser.add_argument("--words", type=int, default=40, help="how many secret words there are")
    parser.add_argument("--transcripts", type=int, default=8000, help="scripted games for the tiny model's warm-up")
    parser.add_argument("--steps", type=int, default=150, help="optimiser steps of GRPO")
    parser.add_argument("--rollouts", type=int, default=64, help="games in each step")
    parser.add_argument("--group-size", type=int, default=8, help="games with the same secret word")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--metrics", type=Path, help="file for the metrics of every step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
