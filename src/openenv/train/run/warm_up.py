"""A warm-up on examples: a model learns from episodes of another player before it plays itself.

An example is written in the very tokens in which the model will play, and only the tokens of actions are learned.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset  # type: ignore[import-untyped]
from rich.console import Console
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv.core.client_types import StepResult
from openenv.core.documents import draft_of
from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics.bounds import reaches
from openenv.records.collection import Collection
from openenv.train.agents.agent import play
from openenv.train.agents.player_agent import PlayerAgent, PlayerMaker, form_of, scripted_players
from openenv.train.agents.policy import Policy, takes_gpu
from openenv.train.checks import player_missing
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.dataset.recorded import recorded_episodes
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.form import Form, prompt_messages
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import call_text
from openenv.train.progress import WorkProgress
from openenv.train.rollout.renderer import Renderer
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.callbacks import AVERAGED_STEPS
from openenv.train.run.environments import OpenRun
from openenv.train.run.lora import lora_config, whole_model
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.seeds import derived_seed
from openenv.train.tasks.task_choice import training_tasks

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["call_examples", "check_examples", "example_tokens", "find_examples", "learn_examples", "warm_up"]

NOT_LEARNED = -100


def warm_up(run: OpenRun, policies: Mapping[str, Policy]) -> float:
    """Let the model learn from the run's examples, and save it in the run's folder; return the seconds that it took."""
    start = time.monotonic()
    with run.times.measure("environment"):
        examples = [
            example_tokens(episode, policies[name].renderer)
            for name, part in run.config.parts.items()
            for episode in find_examples(part, run.sessions[name], policies[name], run.console)
        ]
    run.show(f"warm-up on {len(examples)} episodes")
    policy = next(iter(policies.values()))
    with run.times.measure("training"):
        learn_examples(policy, examples, run.config, run.folder.warm_up, run.console)
    return time.monotonic() - start


def check_examples(config: TrainConfig, sessions: Sessions, policy: Policy) -> None:
    """Refuse early what `find_examples` would refuse, without playing an episode."""
    if isinstance(config.sft, str):
        find_examples(config, sessions, policy)
    elif config.sft is not None:
        _scripted_players(sessions)


def call_examples(config: TrainConfig, sessions: Mapping[str, Sessions]) -> list[Episode]:
    """Find the episodes to learn from of environments that have only tools; none where nothing is to be learned so."""
    return [
        episode
        for name, part in config.parts.items()
        if config.is_tiny and part.sft is not None and sessions[name].tools is not None
        for episode in find_examples(part, sessions[name])
    ]


def find_examples(
    config: TrainConfig, sessions: Sessions, policy: Policy | None = None, console: Console | None = None
) -> list[Episode]:
    """Return the episodes of ``sft`` to learn from, without illegal actions, failures and too small rewards."""
    assert config.sft is not None
    # Only where actions are texts is the policy needed.
    if isinstance(config.sft, int):
        found = _played(config, sessions, config.sft, console or Console(quiet=True))
    elif "://" in config.sft or Path(config.sft).is_file():
        found = list(_recorded(config.sft, sessions))
    elif sessions.tools is not None:
        before = _text_before(form_of(sessions))
        found = list(_collected_calls(Path(config.sft), sessions.name, before))
    else:
        assert policy is not None
        prompt = prompt_messages(sessions.goal)
        form = TextForm(policy.actions, policy.actions.instructions(), prompt=prompt)
        found = list(_collected(Path(config.sft), _text_before(form)))
    legal = [episode for episode in found if episode.error is None and episode.turns and not episode.illegal_actions]
    if not legal:
        raise ConfigurationError("Of the episodes to learn from, none has legal actions only.")
    return _good(legal, config.sft_min_reward)


def example_tokens(episode: Episode, renderer: Renderer) -> tuple[list[int], list[int]]:
    """Return an episode's tokens as if the model had played it, and labels: -100 (not learned) outside of actions."""
    form = renderer.form
    ids = renderer.opening(form.opening_messages(episode.turns[0].observation))
    labels = [NOT_LEARNED] * len(ids)
    for turn, next_turn in zip(episode.turns, [*episode.turns[1:], None], strict=True):
        written = renderer.answer(turn.action)
        ids += written
        labels += written
        if next_turn is not None:
            answer = renderer.read(written)
            results = [MoveResult(move, next_turn.observation) for move in answer.moves]
            fed = renderer.reply(written, form.replies(answer.message, results))
            ids += fed
            labels += [NOT_LEARNED] * len(fed)
    return ids, labels


def learn_examples(
    policy: Policy,
    examples: Sequence[tuple[list[int], list[int]]],
    config: TrainConfig,
    folder: Path,
    console: Console,
) -> None:
    """Let a model learn from examples, and save model, tokenizer and ``metrics.jsonl``, all at once when it is done."""
    fitting = [{"input_ids": ids, "labels": labels} for ids, labels in examples if len(ids) <= config.max_context]
    if not fitting:
        raise ConfigurationError(
            f"The shortest episode to learn from has {min(len(ids) for ids, _ in examples)} tokens, and max_context is "
            f"{config.max_context}; set a larger max_context."
        )
    losses = _Losses(console)
    with draft_of(folder) as draft:
        # It leaves wrappers around the policy's model: the one to use afterwards is the saved one.
        trainer = SFTTrainer(
            model=policy.model,
            args=_arguments(config, draft),
            train_dataset=Dataset.from_list(fitting),
            processing_class=policy.tokenizer,
            callbacks=[losses],
            peft_config=lora_config(config, "warm-up"),
        )
        trainer.remove_callback(PrinterCallback)
        with closing(losses):
            trainer.train()
        whole_model(trainer.model).save_pretrained(draft)
        policy.tokenizer.save_pretrained(draft)
        logs = [row for row in trainer.state.log_history if "loss" in row]
        (draft / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in logs), "utf-8")


class _Losses(TrainerCallback):
    """Shows the steps of a warm-up with their losses, and the time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Between the beginning of the training and its end; only there the number of steps is known.
        self._progress: WorkProgress | None = None

    def on_train_begin(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Show the display."""
        self._progress = WorkProgress(self._console, "steps", state.max_steps, heading="warm-up", recent=AVERAGED_STEPS)
        self._progress.__enter__()

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the loss of a step."""
        if self._progress is not None and logs and "loss" in logs:
            self._progress.advance(state.global_step, f"loss {float(logs['loss']):.3f} per token")

    def close(self) -> None:
        """Leave the display as it is."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)


def _arguments(config: TrainConfig, folder: Path) -> SFTConfig:
    on_gpu = takes_gpu(config)
    episodes = min(config.micro_batch or config.sft_batch, config.sft_batch)
    return SFTConfig(
        output_dir=str(folder),
        seed=config.seed,
        num_train_epochs=config.sft_epochs,
        per_device_train_batch_size=episodes,
        gradient_accumulation_steps=max(1, config.sft_batch // episodes),
        max_length=config.max_context,
        learning_rate=config.sft_learning_rate,
        lr_scheduler_type="linear",
        adam_beta2=config.adam_beta2,
        max_grad_norm=config.max_grad_norm,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        activation_checkpointing=bool(config.gradient_checkpointing),
        dataloader_pin_memory=on_gpu,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )


def _scripted_players(sessions: Sessions) -> PlayerMaker:
    make_player = scripted_players(sessions)
    if make_player is None:
        raise player_missing(sessions.name)
    return make_player


def _played(config: TrainConfig, sessions: Sessions, count: int, console: Console) -> list[Episode]:
    agent = PlayerAgent(
        _scripted_players(sessions),
        lambda number, task: derived_seed(config.seed, "examples", number),
        form_of(sessions),
        config.max_turns,
    )
    tasks = training_tasks(config.tasks, sessions, count, seed=config.seed, reset=config.reset)
    episodes = []
    with PlayProgress(console, len(tasks), heading="examples", has_last_line=False) as progress:
        for played in play(agent, enumerate(tasks), sessions):
            progress.add(played)
            episodes.append(played.episode)
    return episodes


def _good(episodes: list[Episode], min_reward: float | None) -> list[Episode]:
    """Return the episodes with enough reward."""
    good = [episode for episode in episodes if min_reward is None or reaches(episode.reward, min_reward)]
    if not good:
        best = max(episode.reward for episode in episodes)
        raise ConfigurationError(
            f"Expected episodes to learn from with a reward of {min_reward:g} or more, got {best:g} at best. Lower "
            "--min-reward."
        )
    return good


def _recorded(traces: str, sessions: Sessions) -> Iterator[Episode]:
    name = None if sessions.package is None else sessions.name
    return recorded_episodes(traces, name, form_of(sessions))


def _text_before(form: Form) -> str:
    """Return the text of the user before the first observation."""
    return text_of(form.opening_messages("")[-1]["content"])


def _collected(folder: Path, before: str) -> Iterator[Episode]:
    """Read the episodes of a collection whose actions are texts."""
    lines = Collection(folder).read()
    if not lines:
        raise ConfigurationError(f"Expected a folder that openenv collect has made, with episodes; got {folder}.")
    for line in lines:
        messages = [message for message in line["messages"] if message["role"] != "system"]
        opening = messages[0]["content"]
        if line["tools"] or not opening.startswith(before):
            raise ConfigurationError(
                f"Expected episodes of this environment with actions as texts in {folder}, as openenv collect --form "
                f"text has them; the one with index {line['index']} begins with {opening[:80]!r}"
                f"{' and has calls of tools' if line['tools'] else ''}."
            )
        if not line["illegal_actions"]:
            yield _episode(line, [{**messages[0], "content": opening.removeprefix(before)}, *messages[1:]])


def _collected_calls(folder: Path, environment: str, before: str) -> Iterator[Episode]:
    """Read the episodes of a collection whose actions are calls of tools."""
    # Collections of earlier versions have nothing before the first observation.
    lines = Collection(folder).read()
    if not lines:
        raise ConfigurationError(f"Expected a folder that openenv collect has made, with episodes; got {folder}.")
    for line in lines:
        messages = [message for message in line["messages"] if message["role"] != "system"]
        if not line["tools"]:
            raise ConfigurationError(
                f"{environment} has only tools. Expected episodes of calls in {folder}, as openenv collect --form "
                f"tools has them; in the one with index {line['index']} actions are texts."
            )
        # The call of an answer that was cut off is no example.
        calls = [message for message, reply in pairwise(messages) if reply["role"] == "tool" != message["role"]]
        if not line["illegal_actions"] and all(message.get("tool_calls") for message in calls):
            first = {**messages[0], "content": messages[0]["content"].removeprefix(before)}
            yield _episode(line, [_as_texts(message) for message in (first, *messages[1:])])


def _as_texts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Write a message with calls, or with what they gave, as if actions were texts."""
    if message["role"] == "tool":
        return {"role": "user", "content": message["content"]}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        return {"role": "assistant", "content": call_text(function["name"], function["arguments"])}
    return dict(message)


def _episode(line: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Episode:
    episode = Episode.of_task(line["task"])
    shown = [message["content"] for message in messages if message["role"] == "user"]
    done = [message["content"] for message in messages if message["role"] == "assistant"]
    for observation, action, reward in zip(shown, done, line["rewards"], strict=False):
        episode.add_turn(observation, action, StepResult(None, reward, done=False))
    return episode
