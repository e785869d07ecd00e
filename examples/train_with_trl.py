"""Train on an environment with a GRPOTrainer of your own: your model, your arguments, your callbacks.

``openenv train`` does all of this by itself. Here OpenEnv brings the tasks and the rollouts only: `RolloutFunction`
plays a batch of episodes through the environment's client, and TRL does the rest.

Run it as ``python examples/train_with_trl.py --steps 300``, which ends at a mean reward of +1.00 after a minute on a
CPU; fewer steps only show that it works.
"""

import argparse
import tempfile

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.train import EnvSpec, RolloutFunction, Sessions, TrainConfig, make_policy
from openenv.train.quiet import quiet_libraries


def main() -> None:
    """Train the tiny policy on Catch and print how its reward changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rollouts", type=int, default=128)
    options = parser.parse_args()

    config = TrainConfig(environment="catch", steps=options.steps, rollouts=options.rollouts)
    with (
        quiet_libraries(),
        Sessions.open(config.environment, config.rollouts) as sessions,
        tempfile.TemporaryDirectory() as folder,
    ):
        policy = make_policy(config, sessions)
        # A task is the seed of an episode's reset; TRL plays each of them num_generations times.
        spec = EnvSpec(sessions, num_tasks=config.steps * config.rollouts // config.group_size)
        trainer = GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            rollout_func=RolloutFunction(spec, illegal_penalty=config.illegal_penalty),
            reward_funcs=spec.reward_funcs,
            train_dataset=spec.train_dataset,
            args=GRPOConfig(
                output_dir=folder,
                max_steps=config.steps,
                per_device_train_batch_size=config.rollouts,
                num_generations=config.group_size,
                max_completion_length=config.max_context,
                learning_rate=config.learning_rate,
                adam_beta2=config.adam_beta2,
                entropy_coef=config.entropy_bonus,
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
