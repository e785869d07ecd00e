"""Train on an environment with a GRPOTrainer of your own: your model, your arguments, your callbacks.

``openenv train`` does all of this by itself. Here OpenEnv brings the rollouts only: `EpisodeRollouts` plays a batch of
episodes through the environment's client, and TRL does the rest.

Run it as ``python examples/train_with_trl.py --steps 300``; less than some hundred steps only show that it works.
"""

import argparse
import tempfile

from datasets import Dataset  # type: ignore[import-untyped]
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.train import EpisodeRollouts, Sessions, TrainConfig, make_policy
from openenv.train.grpo import episode_reward
from openenv.train.quiet import quiet_libraries
from openenv.train.seeds import training_seeds


def main() -> None:
    """Train the tiny policy on Catch and print how its reward changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rollouts", type=int, default=32)
    options = parser.parse_args()

    config = TrainConfig(environment="catch", steps=options.steps, rollouts=options.rollouts)
    with (
        quiet_libraries(),
        Sessions.open(config.environment, config.rollouts) as sessions,
        tempfile.TemporaryDirectory() as folder,
    ):
        policy = make_policy(config, sessions)
        # A prompt is the seed of an episode's reset; TRL repeats each of them num_generations times.
        seeds = training_seeds(config.seed, config.steps * config.rollouts // config.group_size)
        trainer = GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            rollout_func=EpisodeRollouts(policy, sessions, config),
            reward_funcs=[episode_reward],
            train_dataset=Dataset.from_dict({"prompt": [str(seed) for seed in seeds]}),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=config.steps,
                per_device_train_batch_size=config.rollouts,
                num_generations=config.group_size,
                learning_rate=config.learning_rate,
                scale_rewards="batch",
                logging_steps=1,
                use_cpu=True,
                bf16=False,
                activation_checkpointing=False,
                report_to="none",
            ),
        )
        trainer.train()
        rewards = [entry["episode/reward"] for entry in trainer.state.log_history if "episode/reward" in entry]
    print(f"mean reward {rewards[0]:+.3f} in the first step, {rewards[-1]:+.3f} in the last")  # noqa: T201


if __name__ == "__main__":
    main()
