"""Train a small network on Catch with PyTorch Lightning: REINFORCE, all games of a batch stepped together.

Needs lightning 2.6 (``pip install "lightning>=2.6.4"``) and the environment's package. It learns to miss no ball
in some seconds on a CPU:

python examples/trainers/lightning_catch.py
python examples/trainers/lightning_catch.py --url http://localhost:8000 --games 16  # on a server that runs
"""

import argparse
from collections.abc import Iterator

import lightning
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, IterableDataset

import openenv
from catch_env import CatchAction
from catch_env.models import COLUMNS
from openenv import StepResult, SyncVectorEnv

MOVES = ("left", "stay", "right")
Batch = tuple[Tensor, Tensor, Tensor]


class CatchModule(lightning.LightningModule):
    """A policy, and how it learns from the rewards of the games that it played.

    Args:
        learning_rate: Of Adam.
    """

    def __init__(self, learning_rate: float = 0.4) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.policy = nn.Linear(2 * COLUMNS - 1, len(MOVES))

    def forward(self, observations: Tensor) -> torch.distributions.Categorical:
        """Say how likely each move is; ``observations`` are games by features."""
        return torch.distributions.Categorical(logits=self.policy(observations))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Make the moves of the games that went better than the average more likely."""
        observations, moves, rewards = batch
        self.log("reward", rewards.mean(), prog_bar=True)
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        return -(self(observations).log_prob(moves) * advantages[:, None]).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Learn with Adam."""
        return torch.optim.Adam(self.parameters(), self.learning_rate)


class PlayedGames(IterableDataset[Batch]):
    """Batches of games, each played with the policy as it is by then.

    Args:
        games: The sessions, one for each game of a batch.
        module: The policy.
        batches: How many batches an epoch has.
    """

    def __init__(self, games: SyncVectorEnv, module: CatchModule, batches: int) -> None:
        self._games = games
        self._module = module
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        """Play."""
        for batch in range(self._batches):
            yield self._play(first_seed=batch * len(self._games))

    @torch.no_grad()
    def _play(self, first_seed: int) -> Batch:
        observations, moves = [], []
        rewards = torch.zeros(len(self._games))
        results = _checked(self._games.reset(seeds=range(first_seed, first_seed + len(self._games))))
        while not results[0].done:  # every game of Catch takes nine moves
            observations.append(_features(results))
            moves.append(self._module(observations[-1].to(self._module.device)).sample().cpu())
            results = _checked(self._games.step([CatchAction(move=MOVES[move]) for move in moves[-1]]))
            rewards += torch.tensor([result.reward or 0.0 for result in results])
        return torch.stack(observations, dim=1), torch.stack(moves, dim=1), rewards


def _features(results: list[StepResult]) -> Tensor:
    """Say how far each ball is from its paddle, as one of the possible distances."""
    distances = [result.observation.ball - result.observation.paddle for result in results]
    return one_hot(torch.tensor(distances) + COLUMNS - 1, 2 * COLUMNS - 1).float()


def _checked(results: list) -> list[StepResult]:
    for result in results:
        if not isinstance(result, StepResult):
            raise result  # a game that failed; a trainer that goes on without it would leave it out here
    return results


def train(target: str, games: int, batches: int) -> lightning.Trainer:
    """Train a policy from random weights.

    Args:
        target: The environment's name, or the address of its server.
        games: How many games are played at once.
        batches: Optimiser steps.

    Returns:
        The trainer, with the mean reward of the last batch among its metrics.
    """
    settings = {"environment": "catch"} if "://" in target else {"max_sessions": games}
    lightning.seed_everything(1, verbose=False)
    module = CatchModule()
    trainer = lightning.Trainer(
        max_epochs=1, log_every_n_steps=1, logger=False, enable_checkpointing=False, enable_model_summary=False
    )
    with openenv.make(target, **settings).sync() as client, client.vector(games) as vector:
        # Without workers and batch_size, games are played here, between the optimiser's steps.
        trainer.fit(module, DataLoader(PlayedGames(vector, module, batches), batch_size=None))
    return trainer


def main() -> None:
    """Train, and say what the last games' rewards were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="catch", dest="target", help="a server that runs, in place of one of its own")
    parser.add_argument("--games", type=int, default=64, help="at once, and in a batch (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=100, help="optimiser steps (default: %(default)s)")
    options = parser.parse_args()
    trainer = train(options.target, options.games, options.batches)
    print(f"mean reward {trainer.callback_metrics['reward'].item():+.3f} in the last batch")  # noqa: T201


if __name__ == "__main__":
    main()
