"""Group relative policy optimisation (GRPO, https://arxiv.org/abs/2402.03300) with TRL's trainer.

Each optimiser step plays ``rollouts`` episodes, in groups that share a seed: an episode is reinforced as far as it did
better than its group. The trainer learns from the very tokens that the rollout sampled.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, OpenEnvError
from openenv.records.failures import FailureCounter
from openenv.records.run_folder import RunFolder
from openenv.records.run_times import ACTIONS_SPEED, TOKENS_SPEED, time_metric
from openenv.train.agents.policy import Policy, takes_gpu
from openenv.train.episodes.illegal_texts import IllegalTexts
from openenv.train.episodes.spending import SpendingCounter
from openenv.train.generation.trainers import max_context_of
from openenv.train.rewards.environment_reward import log_components
from openenv.train.rollout.resampling import play_resampled
from openenv.train.run.components import component_rewards, weighted_rewards
from openenv.train.run.environments import OpenRun, group_environments, training_spec
from openenv.train.run.lora import lora_config
from openenv.train.run.scoring import TrainingEvaluations
from openenv.train.samplers import TaskSampler, is_flat
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.order import prompt_groups
from openenv.train.time_split import TimeSplit
from openenv.train.trl.rollout_function import RolloutFunction

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["episode_reward", "make_trainer"]


class _StepTimes(TrainerCallback):
    """Measures the time of each optimiser step by what it goes to, and what was played in it.

    Args:
        split: Split of the run's time.
    """

    def __init__(self, split: TimeSplit) -> None:
        self.split = split
        # Since the last step was logged.
        self._tokens = self._actions = 0

    def count(self, tokens: int, actions: int) -> None:
        """Count tokens that the model has written, and actions of the environment."""
        self._tokens += tokens
        self._actions += actions

    def drain(self) -> dict[str, float]:
        """Return the metrics of the step that ends now: its seconds by activity, and the speeds."""
        seconds = self.split.drain()
        metrics = {time_metric(activity): value for activity, value in seconds.items()}
        for metric, count, activity in (
            (TOKENS_SPEED, self._tokens, "generation"),
            (ACTIONS_SPEED, self._actions, "environment"),
        ):
            if duration_s := metrics.get(time_metric(activity)):
                metrics[metric] = count / duration_s
        self._tokens = self._actions = 0
        return metrics

    def on_step_begin(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Count the time for training, but for what is measured within."""
        self.split.switch("training")

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Count the time until the next step, as of checkpoints, for waiting."""
        self.split.switch("waiting")


class _RunRollouts:
    """TRL's ``rollout_func`` of a run, which counts what was played, failures, and answers that were illegal."""

    def __init__(
        self,
        play: RolloutFunction,
        illegal_texts: IllegalTexts,
        failures: FailureCounter,
        spending: SpendingCounter,
        times: _StepTimes,
        config: TrainConfig,
        dataset: Sequence[Any],
    ) -> None:
        self._play = play
        self._illegal_texts = illegal_texts
        self._failures = failures
        self._spending = spending
        self._times = times
        self._config = config
        self._dataset = dataset
        self._environments = group_environments(config) if config.resample else []

    def __call__(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """Play the episodes; ``training_reward`` is that of the components which the run learns from."""
        if self._config.resample:
            rows = (self._config, self._dataset, self._environments)
            fields = play_resampled(self._play_rewarded, prompts, trainer, *rows)
        else:
            fields = self._play_rewarded(prompts, trainer)
        names = fields.get("environment_name") or [""] * len(prompts)
        for name, texts in zip(names, fields["illegal_texts"], strict=True):
            self._illegal_texts.add(name, texts)
        return fields

    def _play_rewarded(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        with self._times.split.measure("waiting"):
            fields = self._play(prompts, trainer)
        self._times.count(sum(map(sum, fields["env_mask"])), sum(fields["episode_length"]))
        for spent in fields["spent"]:
            self._spending.add(spent)
        names = fields.get("environment_name") or [""] * len(prompts)
        for name, kind in zip(names, fields["failure"], strict=True):
            if kind:  # also of episodes instead of which others are played
                self._failures.add(name, kind)
        if self._config.reward_components:
            fields["training_reward"] = weighted_rewards(self._config, fields)
        return fields


def episode_reward(
    training_reward: Sequence[float | None],
    episode_reward: Sequence[float],
    episode_length: Sequence[int],
    illegal_actions: Sequence[int],
    log_metric: Any,
    environment_name: Sequence[str] = (),
    prompts: Sequence[Any] = (),
    cut_by: Sequence[str] = (),
    cut_answers: Sequence[int] = (),
    answers_without_call: Sequence[int] = (),
    reward_components: Sequence[Mapping[str, float]] = (),
    resampled_episodes: Sequence[int] = (),
    resampled_tokens: Sequence[int] = (),
    **_: Any,
) -> list[float | None]:
    """TRL's reward function: return ``training_reward``, and log the means of how the episodes went that count."""
    # The arguments are fields of a `RolloutFunction`; equal prompts of a group stand together. Where there are several
    # environments, each has its own means, too.
    measured: dict[str, Sequence[float]] = {
        "reward": episode_reward,
        "length": episode_length,
        "illegal_actions": illegal_actions,
        "flat_groups": _flat_groups(prompts, training_reward),
        "cut_by_max_turns": [limit == "max_turns" for limit in cut_by],
        "cut_by_max_context": [limit == "max_context" for limit in cut_by],
        "cut_answers": cut_answers,
    }
    no_calls = [count > 0 == length for count, length in zip(answers_without_call, episode_length, strict=False)]
    if any(no_calls):  # of texts there is never one
        measured["no_calls"] = no_calls
    indexes: dict[str, Sequence[int]] = {"episode": range(len(training_reward))}
    for name in dict.fromkeys(environment_name):
        indexes[f"episode/{name}"] = [index for index, each in enumerate(environment_name) if each == name]
    spent = {"resampled_episodes": resampled_episodes, "resampled_tokens": resampled_tokens}
    for prefix, played in indexes.items():
        for metric, counts in spent.items():
            if counts:
                log_metric(f"{prefix}/{metric}", float(sum(counts[index] for index in played)))
        # What was reached before a failure is no reward: it enters no mean, and no best and worst.
        own = [index for index in played if training_reward[index] is not None]
        log_metric(f"{prefix}/failed", 1 - len(own) / len(played))
        if not own:
            continue
        for metric, values in measured.items():
            if values:
                log_metric(f"{prefix}/{metric}", sum(values[index] for index in own) / len(own))
        log_components(log_metric, prefix, [reward_components[index] for index in own if reward_components])
        log_metric(f"{prefix}/best_reward", max(episode_reward[index] for index in own))
        log_metric(f"{prefix}/worst_reward", min(episode_reward[index] for index in own))
    return list(training_reward)


def _flat_groups(prompts: Sequence[Any], rewards: Sequence[float | None]) -> list[bool]:
    """Return for each episode whether all of its group got the same reward; TRL logs that of whole batches only."""
    flat: list[bool] = []
    for group in prompt_groups(prompts):
        flat += [is_flat([rewards[number] for number in group])] * len(group)
    return flat


class _MetricsFile(TrainerCallback):
    """Writes what is logged in each optimiser step, and its answers that were no legal action, to ``metrics.jsonl``."""

    def __init__(self, folder: RunFolder, illegal_texts: IllegalTexts) -> None:
        self._folder = folder
        self._illegal_texts = illegal_texts

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a line."""
        # The summary at the end of a training is no step's.
        if logs and "train_runtime" not in logs:
            self._folder.add_metrics({"step": state.global_step, **logs, **self._illegal_texts.take()})


class _TimedTrainer(GRPOTrainer):
    """Trainer whose logs of a step have its evaluation, its time and the counts of samplers, also for trackers."""

    step_times: _StepTimes
    # By the names of several environments.
    samplers: Mapping[str, TaskSampler]
    evaluations: TrainingEvaluations
    failures: FailureCounter
    spending: SpendingCounter

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Log what belongs to a step with its evaluation and its time; the summary at the end is no step's."""
        if "train_runtime" not in logs:
            # A step in which every episode failed has no reward: what TRL logs as its mean is no number.
            known = {name: value for name, value in logs.items() if not isinstance(value, float) or isfinite(value)}
            logs = {**known, **self.failures.drain(), **self.evaluations.drain(), **self.step_times.drain()}
            logs |= self._sampler_figures() | self.spending.drain()
        super().log(logs, start_time)

    def _sampler_figures(self) -> dict[str, float]:
        return {
            f"sampler/{f'{name}/' if name else ''}{figure}": value
            for name, sampler in self.samplers.items()
            for figure, value in sampler.counters.figures().items()
        }


def make_trainer(
    run: OpenRun, policies: Mapping[str, Policy], callbacks: Sequence[TrainerCallback] = ()
) -> GRPOTrainer:
    """Make TRL's trainer of a run, whose ``train`` runs the whole schedule; policies share one model."""
    config, folder = run.config, run.folder
    policy = next(iter(policies.values()))
    illegal_texts, failures = IllegalTexts(), FailureCounter()
    spending = SpendingCounter(config.model, config.price_list)
    step_times = _StepTimes(run.times)
    spec = training_spec(config, run.sessions)
    rollouts = RolloutFunction(
        spec,
        max_context=config.max_context,
        illegal_penalty=config.illegal_penalty,
        illegal_answers=config.illegal_answers,
        renderers={name: own.renderer for name, own in policies.items()},
        recorder=run.recorder,
        times=run.times,
    )
    evaluations = TrainingEvaluations(run, policies)
    functions, rewards = _rewards(config)
    try:
        trainer = _TimedTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=_arguments(config, folder, rewards),
            train_dataset=spec.train_dataset,
            reward_funcs=functions,
            rollout_func=_RunRollouts(
                rollouts, illegal_texts, failures, spending, step_times, config, spec.train_dataset
            ),
            callbacks=[step_times, evaluations, _MetricsFile(folder, illegal_texts), *callbacks],
            peft_config=lora_config(config, "grpo"),
        )
    except (OSError, RuntimeError, ValueError) as error:
        refusal = _refusal(error, config)
        if refusal is None:
            raise
        raise refusal from error
    trainer.step_times, trainer.evaluations = step_times, evaluations
    trainer.failures, trainer.spending = failures, spending
    by_name = spec._spec_tasks_by_name
    trainer.samplers = {name: each.sampler for name, each in by_name.items() if each.sampler is not None}
    _check_context(trainer, config)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _refusal(error: Exception, config: TrainConfig) -> OpenEnvError | None:
    """Return the error of the settings that made a trainer fail to begin; ``None`` for an error of another kind."""
    text = str(error)
    # Files of a tracker's package are left, which is not installed.
    if config.report_to and "Callback requires" in text:
        return ConfigurationError(f"report_to {', '.join(config.report_to)}: {text}")
    if config.vllm and "vLLM server can't be reached" in text:
        return ConnectionFailedError(f"vllm: {text}")
    # The server was started without what sends weights to it, or there is no GPU to send them from.
    if config.vllm and ("vLLM server at" in text or isinstance(error, NotImplementedError)):
        return ConfigurationError(f"vllm: {text}")
    return None


def _check_context(trainer: GRPOTrainer, config: TrainConfig) -> None:
    limit = max_context_of(trainer)
    if config.vllm and limit < config.max_context:
        raise ConfigurationError(
            f"max_context is {config.max_context}, and vLLM has room for {limit} tokens. Set max_context to {limit} at "
            "most, or give vLLM more by its max_model_len."
        )


def _rewards(config: TrainConfig) -> tuple[list[Any], dict[str, Any]]:
    """Return the reward functions, and the arguments of ``GRPOConfig`` that go with them."""
    if not config.reward_components:
        return [episode_reward], {}
    functions, weights = component_rewards(config, episode_reward)
    # Each function is normalised over its group, so that a rare component counts beside a frequent one.
    return functions, {"reward_weights": weights, "multi_objective_aggregation": "normalize_then_sum"}


def _arguments(config: TrainConfig, folder: RunFolder, rewards: Mapping[str, Any]) -> GRPOConfig:
    on_gpu = takes_gpu(config)
    episodes = config.micro_batch or config.rollouts
    return GRPOConfig(
        output_dir=str(folder.checkpoints),
        run_name=folder.path.name,
        seed=config.seed,
        # How much is played and learned
        max_steps=config.steps,
        per_device_train_batch_size=episodes,
        gradient_accumulation_steps=config.rollouts // episodes,
        num_generations=config.group_size,
        max_completion_length=config.max_context,
        shuffle_dataset=False,
        # How it is learned
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.lr_schedule,
        adam_beta2=config.adam_beta2,
        max_grad_norm=config.max_grad_norm,
        temperature=config.temperature,
        scale_rewards=config.scale_rewards,
        loss_type=config.loss_type,
        entropy_coef=config.entropy_bonus,
        beta=config.beta,
        **rewards,
        # Where it is computed
        **(config.vllm.arguments() if config.vllm else {}),
        use_cpu=not on_gpu,
        bf16=on_gpu,
        activation_checkpointing=bool(config.gradient_checkpointing),
        dataloader_pin_memory=on_gpu,
        # What is written
        save_steps=config.checkpoint_every,
        save_total_limit=config.checkpoints_kept,
        logging_steps=1,
        report_to=config.report_to or "none",
        disable_tqdm=True,
    )
