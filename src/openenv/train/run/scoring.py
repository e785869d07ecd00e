"""Scores of a run: the model, a random and a scripted player on the same tasks, before and after the training."""

from collections.abc import Mapping

from openenv.records.scores import AFTER, BEFORE, MODEL, RANDOM, SCRIPTED, Score, figure_name, sampled, score_name
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.evaluation.scores import random_agent, score, scripted_agent
from openenv.train.run.components import check_components
from openenv.train.run.environments import OpenRun

__all__ = ["score_before", "score_model"]


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
        run.show(f"{figure_name(key):<{width}}  mean reward {found.mean_reward:+.3f}{legal}")


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
