"""Train on reasoning-gym with torchforge: the two actors of its GRPO application that know the task.

Needs GPUs, torchforge from its repository, https://github.com/meta-pytorch/torchforge (what PyPI has under this name is
empty), and ``pip install path/to/openenv``. Serve the environment with room for every answer that is judged at once:

REASONING_GYM_DATASET=chain_sum openenv serve reasoning_gym --max-sessions 256

In a copy of torchforge's ``apps/grpo/main.py`` these take the places of two actors, in the call that makes all of them:

DatasetActor.options(...)  ->  Questions.options(**cfg.actors.dataset).as_actor(**cfg.dataset)
RewardActor.options(...)   ->  Verdicts.options(**cfg.services.reward_actor).as_service(url=cfg.dataset.url)

and in its YAML file ``dataset`` is ``{url: "http://my-host:8000", model: Qwen/Qwen3-1.7B}``. An environment of several
turns needs a loop of its own around ``Generator.generate``; torchforge's ``apps/blackjack`` has one, with an OpenEnv
client.
"""

from dataclasses import dataclass
from itertools import count

from forge.controller.actor import ForgeActor
from monarch.actor import endpoint
from transformers import AutoTokenizer

from openenv import GenericEnvClient
from openenv.adapters.text import observation_text

PROMPT = "Answer the question. Put nothing but the answer behind the last line's ####."


def answer_of(response: str) -> str:
    """Cut the answer out of what the model said.

    Args:
        response: Its text.

    Returns:
        What stands behind the last ``####``; nothing where there is none.
    """
    return response.rpartition("####")[2].strip() if "####" in response else ""


@dataclass
class Questions(ForgeActor):
    """Gives the environment's questions as prompts, each with the seed that asks it again.

    Attributes:
        url: The environment's server.
        model: Whose chat template the prompts have.
        seed: Of the first question.
    """

    url: str
    model: str
    seed: int = 0

    @endpoint
    async def setup(self) -> None:
        """Load the tokenizer and connect."""
        self._tokenizer = AutoTokenizer.from_pretrained(self.model)
        self._seeds = count(self.seed)
        self._session = GenericEnvClient(base_url=self.url)
        await self._session.connect()

    @endpoint
    async def sample(self) -> dict[str, str]:
        """Ask the next question."""
        seed = next(self._seeds)
        question = observation_text((await self._session.reset(seed=seed)).observation)
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
        request = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return {"request": request, "target": str(seed)}

    @endpoint
    async def pad_token(self) -> int:
        """Name the token that fills up a batch."""
        pad_id = self._tokenizer.pad_token_id
        return self._tokenizer.eos_token_id if pad_id is None else pad_id


@dataclass
class Verdicts(ForgeActor):
    """Lets the environment judge answers.

    Attributes:
        url: The environment's server.
    """

    url: str

    @endpoint
    async def setup(self) -> None:
        """Say where the environment is."""
        self._client = GenericEnvClient(base_url=self.url, capacity_wait_s=30.0)

    @endpoint
    async def evaluate_response(self, prompt: str, response: str, target: str) -> tuple[dict[str, float], float]:
        """Ask the same question again, in a session of its own, and answer it.

        Args:
            prompt: What the model was asked.
            response: What it said.
            target: The question's seed.

        Returns:
            The reward under its name, and the reward.
        """
        session = await self._client.new_session()
        try:
            await session.reset(seed=int(target))
            reward = float((await session.step({"answer": answer_of(response)})).reward or 0.0)
        finally:
            await session.close()
        return {"environment_reward": reward}, reward
