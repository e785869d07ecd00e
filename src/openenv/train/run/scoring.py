"""Scores of a run on the same tasks: the model before, in and after the training, a random and a scripted player."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from openenv.core.exceptions import OpenEnvError
from openenv.records.failures import failures_text
from openenv.records.scores import (
    AFTER,
    BEFORE,
    MODEL,
    RANDOM,
    SCRIPTED,
    Score,
    evaluation_metric,
    figure_name,
    sampled,
    score_name,
)
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.episodes.spending import EVALUATION, cost_metrics, spending_in
from openenv.train.evaluation.scores import random_agent, score, scripted_agent
from openenv.train.run.components import check_components
from openenv.train.run.environments import OpenRun

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["TrainingEvaluations", "score_before", "score_model"]


class TrainingEvaluations(TrainerCallback):
    """Evaluates the model greedily every ``eval_every`` steps, but for the last, and keeps the best one.

    An evaluation that fails ends no run, and its step has no figure.
    """

    def __init__(self, run: OpenRun, policies: Mapping[str, Policy]) -> None:
        self._run = run
        self._policies = policies
        # Metrics of the step that ends now.
        self._metrics: dict[str, float] = {}

    def drain(self) -> dict[str, float]:
        """Return the metrics of the evaluation at the step that is logged; none where there was none."""
        metrics, self._metrics = self._metrics, {}
        return metrics

    def on_step_end(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Evaluate the model, where it is due; at the end the run evaluates it anyway."""
        step = state.global_step
        if step not in self._run.config.evaluated_steps:
            return
        with self._run.times.measure("evaluation"):
            try:
                self._metrics = self._evaluate(model, step)
            except OpenEnvError as error:
                self._run.warn(f"warning   the evaluation at step {step} failed, so it has no figure: {error}")
                return
            reward = self._metrics[evaluation_metric("")]
            best = self._run.folder.best_reward()
            news = "" if best is not None and best >= reward else ", the best so far"
            self._run.show(f"step {step}, greedy  mean reward {reward:+.3f}{news}")
            if news:
                with self._run.folder.new_best(step) as folder:
                    model.save_pretrained(folder)
                    next(iter(self._policies.values())).tokenizer.save_pretrained(folder)

    def _evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Play the tasks of the comparison in each environment; the first figure is the mean over environments."""
        metrics = {}
        failures: Counter[str] = Counter()
        costs: list[Mapping[str, float]] = []
        for name, policy in self._policies.items():
            config, sessions = self._run.config.parts[name], self._run.sessions[name]
            # The episodes of the step that comes next have the same weights.
            recorder = self._run.recorder.evaluation(
                "in training, greedy", name, step + 1, sampling={"temperature": 0.0}
            )
            agent = PolicyAgent(replace(policy, model=model), config, temperature=0.0)
            # The training's display stays: a terminal has room for one.
            reached = score(agent, sessions, config, recorder=recorder)
            metrics[evaluation_metric(name)] = reached.mean_reward
            failures.update(reached.failures)
            costs.append(reached.costs)
        counts = {f"evaluation/failures/{kind}": float(count) for kind, count in failures.items()}
        spent = cost_metrics(spending_in(costs), EVALUATION)
        return {evaluation_metric(""): fmean(metrics.values()), **metrics, **counts, **spent}


def score_before(run: OpenRun, policies: Mapping[str, Policy]) -> None:
    """Score the players without a model and the model before it learns; refuse components that no episode has."""
    for player in (RANDOM, SCRIPTED):
        _score(run, policies, player)
    score_model(run, policies, BEFORE)
    check_components(run.config, run.folder.read_scores())
    for sessions in run.sessions.values():
        if sessions.hidden_text is not None:
            run.warn(f"warning   {sessions.name}: {sessions.hidden_text}")


def score_model(run: OpenRun, policies: Mapping[str, Policy], stage: str) -> None:
    """Score the model as it is now, greedy and sampled, as that of a stage: before, warmed up or after."""
    _score(run, policies, stage)
    if run.config.sampled_temperature:
        _score(run, policies, sampled(stage))


def _score(run: OpenRun, policies: Mapping[str, Policy], player: str) -> None:
    """Show the score of a player in each environment, which is played for it unless the folder has it."""
    width = max(len(score_name(sampled(BEFORE), name)) for name in policies)
    for name, policy in policies.items():
        key = score_name(player, name)
        scores = run.folder.read_scores()
        if key not in scores:
            with run.times.measure("evaluation"):
                reached = _evaluate(run, policy, player, name)
            if reached is None:
                continue
            scores[key] = reached
            run.folder.write_scores(scores)
        found = scores[key]
        legal = f", legal answers {found.legal}" if found.legal else ""
        failed = f", failed: {failures_text(found.failures)}" if found.failures else ""
        run.show(f"{figure_name(key):<{width}}  mean reward {found.mean_reward:+.3f}{legal}{failed}")


def _evaluate(run: OpenRun, policy: Policy, player: str, name: str) -> Score | None:
    """Play the evaluation of a player in one environment; ``None`` for a scripted player that there is not."""
    config, sessions = run.config.parts[name], run.sessions[name]
    heading = figure_name(score_name(player, name))
    if player in (RANDOM, SCRIPTED):
        recorder = run.recorder.evaluation(player, name, 1, player)
        other = random_agent(policy, sessions, config) if player == RANDOM else scripted_agent(sessions, config)
        if other is None:
            return None
        return score(other, sessions, config, recorder=recorder, console=run.console, heading=heading)
    temperature = 0.0 if player in MODEL else config.sampled_temperature
    is_last = player in (AFTER, sampled(AFTER)) and config.grpo
    step = config.steps + 1 if is_last else 1
    sampling = {"temperature": temperature}
    recorder = run.recorder.evaluation(figure_name(player), name, step, sampling=sampling)
    # The episode that went worst before the training is the one whose turns are kept.
    before = run.folder.read_scores().get(score_name(BEFORE, name))
    shown = None if before is None else before.sample_seed
    policy.to_device(config)
    agent = PolicyAgent(policy, config, temperature=temperature)
    return score(agent, sessions, config, shown, recorder=recorder, console=run.console, heading=heading)
