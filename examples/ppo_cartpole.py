"""PPO on served environments: any learner for Gymnasium's vector environments can take its place.

A server of Gymnasium's CartPole is started in a process of its own; `GymnasiumVectorEnv` steps all of its sessions
together. Everything else is PPO (https://arxiv.org/abs/1707.06347) as it would be without OpenEnv.

Run it as ``python ppo_cartpole.py``; it needs ``pip install "path/to/openenv[gymnasium]" torch``.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from openenv.adapters.gymnasium import GymnasiumVectorEnv

ENVIRONMENT = "gymnasium:CartPole-v1"
EPISODES_SHOWN = 20


@dataclass(frozen=True)
class Settings:
    """What the run is like; ``steps`` counts those of all environments together."""

    steps: int = 10_000
    seed: int = 1
    num_envs: int = 16
    rollout_length: int = 32
    epochs: int = 8
    minibatches: int = 4
    learning_rate: float = 3e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_gradient: float = 0.5


class Agent(nn.Module):
    """A policy and a value function."""

    def __init__(self, envs: VectorEnv) -> None:
        super().__init__()
        observation, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
        self.policy = nn.Sequential(nn.Linear(observation, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy.append(_small(nn.Linear(64, actions)))
        self.value = nn.Sequential(
            nn.Linear(observation, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )

    def distribution(self, observations: Tensor) -> torch.distributions.Categorical:
        """Say how likely each action is."""
        return torch.distributions.Categorical(logits=self.policy(observations))

    def values(self, observations: Tensor) -> Tensor:
        """Estimate the return that is still to come."""
        return self.value(observations).squeeze(-1)


def _small(layer: nn.Linear) -> nn.Linear:
    """Let the policy begin with all actions about equally likely."""
    nn.init.orthogonal_(layer.weight, 0.01)
    return layer


class Rollout:
    """What happened in ``rollout_length`` steps of every environment; each tensor is steps by environments."""

    def __init__(self, settings: Settings, envs: VectorEnv) -> None:
        shape = settings.rollout_length, settings.num_envs
        self.observations, self.next_observations = torch.zeros((2, *shape, *envs.single_observation_space.shape))
        self.actions = torch.zeros(shape, dtype=torch.long)
        self.log_probabilities, self.rewards = torch.zeros((2, *shape))
        self.terminated, self.ended, self.valid = (torch.zeros(shape, dtype=torch.bool) for _ in range(3))

    def advantages(self, values: Tensor, next_values: Tensor, settings: Settings) -> Tensor:
        """Estimate how much better each action was than the policy's average (https://arxiv.org/abs/1506.02438)."""
        # A terminated episode has no future; a truncated one would have gone on, so its last value counts.
        errors = self.rewards + settings.gamma * next_values * ~self.terminated - values
        advantages, following = torch.zeros_like(errors), torch.zeros(settings.num_envs)
        for step in reversed(range(settings.rollout_length)):
            following = errors[step] + settings.gamma * settings.gae_lambda * following * ~self.ended[step]
            advantages[step] = following
        return advantages


class Player:
    """Plays the agent's policy, from where the last rollout ended."""

    def __init__(self, envs: VectorEnv, settings: Settings) -> None:
        self.envs = envs
        self.settings = settings
        self.returns: list[float] = []
        self._running = np.zeros(settings.num_envs)
        observations, _ = envs.reset(seed=settings.seed)
        self._observations = torch.as_tensor(observations)
        self._ended = torch.zeros(settings.num_envs, dtype=torch.bool)

    @torch.no_grad()
    def play(self, agent: Agent) -> Rollout:
        """Play ``rollout_length`` steps in every environment."""
        rollout = Rollout(self.settings, self.envs)
        for step in range(self.settings.rollout_length):
            distribution = agent.distribution(self._observations)
            actions = distribution.sample()
            rollout.observations[step], rollout.actions[step] = self._observations, actions
            rollout.log_probabilities[step] = distribution.log_prob(actions)
            rollout.valid[step] = ~self._ended  # the step after an end only resets
            self._step(actions, rollout, step)
        return rollout

    def _step(self, actions: Tensor, rollout: Rollout, step: int) -> None:
        observations, rewards, terminations, truncations, _ = self.envs.step(actions.numpy())
        ended = terminations | truncations
        rollout.rewards[step] = torch.as_tensor(rewards)
        rollout.terminated[step], rollout.ended[step] = torch.as_tensor(terminations), torch.as_tensor(ended)
        self._observations, self._ended = torch.as_tensor(observations), rollout.ended[step]
        rollout.next_observations[step] = self._observations
        self._running += rewards
        self.returns += self._running[ended].tolist()
        self._running[ended] = 0.0


def improve(agent: Agent, optimizer: torch.optim.Optimizer, rollout: Rollout, settings: Settings) -> None:
    """Make what turned out well more likely, but not by much."""
    with torch.no_grad():
        values, next_values = agent.values(rollout.observations), agent.values(rollout.next_observations)
    advantages, valid = rollout.advantages(values, next_values, settings), rollout.valid
    targets = (advantages + values)[valid]
    advantages = (advantages[valid] - advantages[valid].mean()) / (advantages[valid].std() + 1e-8)
    observations, actions = rollout.observations[valid], rollout.actions[valid]
    before = rollout.log_probabilities[valid]
    for _ in range(settings.epochs):
        for batch in torch.randperm(len(actions)).chunk(settings.minibatches):
            distribution = agent.distribution(observations[batch])
            ratio = (distribution.log_prob(actions[batch]) - before[batch]).exp()
            clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            policy_loss = -torch.min(ratio * advantages[batch], clipped * advantages[batch]).mean()
            value_loss = nn.functional.mse_loss(agent.values(observations[batch]), targets[batch])
            loss = (
                policy_loss + settings.value_coef * value_loss - settings.entropy_coef * distribution.entropy().mean()
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.max_gradient)
            optimizer.step()


def train(settings: Settings) -> list[float]:
    """Train an agent from nothing.

    Returns:
        The return of each episode that ended, in order.
    """
    torch.manual_seed(settings.seed)
    envs = GymnasiumVectorEnv(ENVIRONMENT, settings.num_envs)
    try:
        agent, player = Agent(envs), Player(envs, settings)
        optimizer = torch.optim.Adam(agent.parameters(), settings.learning_rate, eps=1e-5)
        updates = max(1, settings.steps // (settings.rollout_length * settings.num_envs))
        for update in range(updates):
            optimizer.param_groups[0]["lr"] = settings.learning_rate * (1 - update / updates)
            improve(agent, optimizer, player.play(agent), settings)
            if update % 5 == 4:
                steps = (update + 1) * settings.rollout_length * settings.num_envs
                print(f"{steps:6} steps  mean return {np.mean(player.returns[-EPISODES_SHOWN:]):5.1f}")  # noqa: T201
    finally:
        envs.close()
    return player.returns


def main() -> None:
    """Train and say how much better it became."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=Settings.steps, help="of all environments (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    options = parser.parse_args()

    torch.set_num_threads(1)  # so small a network gains nothing from more
    started = time.perf_counter()
    returns = train(Settings(steps=options.steps, seed=options.seed))
    first, last = np.mean(returns[:EPISODES_SHOWN]), np.mean(returns[-EPISODES_SHOWN:])
    seconds = time.perf_counter() - started
    print(f"mean return {first:.1f} in the first episodes, {last:.1f} in the last; {seconds:.1f} s")  # noqa: T201


if __name__ == "__main__":
    main()
