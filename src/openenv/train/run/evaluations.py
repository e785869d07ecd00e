"""Evaluations of a run's model in its training, each after some optimiser steps, of which the best model is kept."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from openenv.core.exceptions import OpenEnvError
from openenv.records.run_folder import step_of
from openenv.records.scores import evaluation_metric
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.evaluation.scores import score
from openenv.train.run.environments import OpenRun

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["TrainingEvaluations"]


class TrainingEvaluations(TrainerCallback):
    """Evaluates the model greedily every ``eval_every`` steps, but for the last, and keeps the best one.

    An evaluation that fails is none: the run goes on, and its step has no figure.
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
            best = self._best_before(step)
            news = "" if best is not None and best >= reward else ", the best so far"
            self._run.show(f"step {step}, greedy  mean reward {reward:+.3f}{news}")
            if news:
                with self._run.folder.new_best(step) as folder:
                    model.save_pretrained(folder)
                    next(iter(self._policies.values())).tokenizer.save_pretrained(folder)

    def _evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Play the tasks of the comparison in each environment; the first figure is the mean over environments."""
        metrics = {}
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
        return {evaluation_metric(""): fmean(metrics.values()), **metrics}

    def _best_before(self, step: int) -> float | None:
        """Return the mean reward of the model that is kept; ``None`` where none is."""
        kept = self._run.folder.best_model()
        if kept is None:
            return None
        rewards = {row["step"]: row.get(evaluation_metric("")) for row in self._run.folder.read_metrics()}
        reward = rewards.get(step_of(kept))
        return None if reward is None else float(reward)
