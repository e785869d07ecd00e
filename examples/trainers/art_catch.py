"""Train on Catch with ART: each game is a trajectory of what the model said, with the environment's reward.

Needs a GPU and ``pip install "openpipe-art[backend]==0.5.18" path/to/openenv``, without the extra ``train``: ART
brings a TRL of its own. Serve the environment with room for every game at once, then train:

openenv serve catch --max-sessions 64
python examples/trainers/art_catch.py http://localhost:8000
"""

import argparse
import asyncio

import art
from art.local import LocalBackend

from openenv import GenericEnvClient
from openenv.adapters.text import ActionText, observation_text

PROMPT = "You play Catch. A ball falls from row 0 to row 9; be under it then."


async def play(model: art.TrainableModel, client: GenericEnvClient, seed: int) -> art.Trajectory:
    """Play a game in a session of its own.

    Args:
        model: The model, which ART serves with OpenAI's API.
        client: A client of the environment's server.
        seed: Which game it is.

    Returns:
        The conversation, with the sum of the environment's rewards.
    """
    actions = ActionText((await client.schemas())["action"])
    api, name = model.openai_client(), model.get_inference_name()
    session = await client.new_session()
    try:
        result = await session.reset(seed=seed)
        told = f"{PROMPT}\n{actions.instructions()}"
        trajectory = art.Trajectory(messages_and_choices=[{"role": "system", "content": told}], reward=0.0)
        refused = 0
        while not result.done:
            shown = observation_text(result.observation)
            trajectory.messages_and_choices.append({"role": "user", "content": shown})
            completion = await api.chat.completions.create(
                model=name, messages=trajectory.messages(), max_completion_tokens=16, logprobs=True
            )
            # ART learns from the choice as the server gave it, with the log-probabilities of its tokens.
            trajectory.messages_and_choices.append(completion.choices[0])
            reading = actions.read(completion.choices[0].message.content or "")
            refused += not reading.legal  # what is no move counts as "stay"
            result = await session.step(reading.action)
            trajectory.reward += result.reward or 0.0
    finally:
        await session.close()
    trajectory.metrics["illegal_actions"] = refused
    return trajectory.finish()


async def train(url: str, base_model: str, steps: int, games: int = 8, group_size: int = 8) -> None:
    """Train a model.

    Args:
        url: The environment's server.
        base_model: Name of the model on the Hub.
        steps: Optimiser steps.
        games: Different games in a step.
        group_size: How often each of them is played.
    """
    model = art.TrainableModel(name="catch", project="openenv", base_model=base_model)
    backend = LocalBackend()
    await model.register(backend)
    async with GenericEnvClient(base_url=url) as client:
        for step in range(await model.get_step(), steps):
            seeds = range(step * games, (step + 1) * games)
            groups = await art.gather_trajectory_groups(
                art.TrajectoryGroup(play(model, client, seed) for _ in range(group_size)) for seed in seeds
            )
            result = await backend.train(model, groups, learning_rate=1e-5)
            await model.log(groups, metrics=result.metrics, step=result.step, split="train")


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the environment's server")
    parser.add_argument("--model", default="Qwen/Qwen2.5-3B-Instruct", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=20, help="optimiser steps (default: %(default)s)")
    options = parser.parse_args()
    asyncio.run(train(options.url, options.model, options.steps))


if __name__ == "__main__":
    main()
