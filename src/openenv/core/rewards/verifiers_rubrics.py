"""Rubrics of verifiers as rewards of ours: for a turn, for an episode of several, and for the rollouts of a group.

They call ``score_rollout`` and ``score_group`` as the environments of verifiers do, and import nothing of the package,
whose newest release pins versions that do not install beside ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, Protocol

from openenv.core.background_loop import background_loop
from openenv.core.rewards.samples import ReadSample, Sample, SampleRubric, sample_of
from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.trajectory import ExponentialDiscountingTrajectoryRubric

__all__ = ["VerifiersEpisodeReward", "VerifiersGroupReward", "VerifiersReward", "VerifiersRubric"]


class VerifiersRubric(Protocol):
    """What a rubric of verifiers does."""

    async def score_rollout(self, state: Any) -> Any:
        """Write ``reward`` and ``metrics`` into the state of a rollout."""
        ...


class VerifiersGroupRubric(Protocol):
    """What a rubric of verifiers with functions that compare a group does."""

    async def score_group(self, states: list[Any]) -> Any:
        """Write ``reward`` and ``metrics`` into the state of each rollout of a group."""
        ...


class _Metric(Rubric):
    """Score that a rubric of verifiers has written."""

    value: Any = None

    def forward(self, action: Any, observation: Any) -> Any:
        return self.value


class VerifiersScores(Rubric):
    """Base of the rewards that a rubric of verifiers gives: its metrics are the components, with its weights.

    Args:
        rubric: The rubric.
        task: Name of the task, for rubrics that tell tasks apart.
    """

    def _use(self, rubric: VerifiersRubric, task: str) -> None:
        """Note the rubric; ``__init__`` is that of the other base class."""
        self._rubric = rubric
        self._task = task

    async def score(self, rollout: Mapping[str, Any], action: Any, observation: Any) -> Any:
        """Have the rubric score a rollout, and keep its metrics as components.

        Args:
            rollout: What the rubric reads of the rollout: ``prompt``, ``completion``, ``answer``, ``info``, ``task``.
            action: The agent's action, for hooks.
            observation: The observation after it, for hooks.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        state = _state_of(rollout)
        await self._rubric.score_rollout(state)
        if state.get("reward") is None:
            raise ValueError(f"Expected {type(self._rubric).__name__}.score_rollout to write a reward, got none.")
        metrics = state.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
            self._metric(str(name)).value = value
            self._metric(str(name))(action, observation)
        return state["reward"]

    def component_weights(self) -> dict[str, float]:
        """Return the weights of the rubric's functions, by their names, where each name has one."""
        weights: dict[str, float] = {}
        ambiguous = set()
        for name, weight in _weights_of(self._rubric):
            if weights.setdefault(name, weight) != weight:
                ambiguous.add(name)
        return {name: weight for name, weight in weights.items() if name not in ambiguous}

    def _metric(self, name: str) -> _Metric:
        known = self._rubric_children.get(name)
        if isinstance(known, _Metric):
            return known
        metric = _Metric()
        self._add_child(name, metric)
        return metric


class VerifiersReward(VerifiersScores, SampleRubric):
    """Score of a rubric of verifiers for one turn. Calls are ``async``.

    The rubric's metrics are the components, with its weights. The state that it reads has ``prompt`` and ``completion``
    as messages, the right ``answer``, the columns as ``info``, and the ``task``.

    Args:
        rubric: The rubric.
        task: Name of the task, for rubrics that tell tasks apart.
        sample: Reads what is scored; by default `sample_of`.
    """

    def __init__(self, rubric: VerifiersRubric, *, task: str = "default", sample: ReadSample | None = None) -> None:
        SampleRubric.__init__(self, sample)
        self._use(rubric, task)

    async def forward(self, action: Any, observation: Any) -> Any:
        """Have the rubric score a rollout of one turn.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        sample = self._sample(action, observation)
        prompt = [{"role": "user", "content": sample.prompt}]
        return await self.score(_rollout(prompt, [sample], self._task), action, observation)


class VerifiersEpisodeReward(VerifiersScores, ExponentialDiscountingTrajectoryRubric):
    """Score of a rubric of verifiers for an episode of several turns, given with the last observation.

    The rubric reads the turns as one conversation, as from verifiers' ``MultiTurnEnv``: what the agent wrote, and
    between that what the environment showed. The text of the last observation, after which nothing was written, is
    left out.

    Args:
        rubric: The rubric.
        task: Name of the task, for rubrics that tell tasks apart.
        sample: Reads a turn: the completion that the agent wrote, and the text that was shown after it as the prompt;
            by default `sample_of`. The last one has the right answer and the columns.
        gamma: Factor of the score for each step before the last, in the step rewards.

    Example::

        class Guessing(Environment[Guess, Shown, State]):
            def __init__(self) -> None:
                super().__init__(rubric=VerifiersEpisodeReward(vf.Rubric(funcs=[solved, quick], weights=[1.0, 0.2])))

            async def reset(self) -> Shown:
                await self._reset_rubric_async()
                self.rubric.begin("Guess the number.")
                ...
    """

    def __init__(
        self,
        rubric: VerifiersRubric,
        *,
        task: str = "default",
        sample: ReadSample | None = None,
        gamma: float = 0.99,
    ) -> None:
        ExponentialDiscountingTrajectoryRubric.__init__(self, gamma)
        self._use(rubric, task)
        self._sample = sample or sample_of
        self._prompt: list[dict[str, Any]] = []

    def begin(self, prompt: str | Sequence[Mapping[str, Any]]) -> None:
        """Note the prompt of an episode, for rubrics that read it; to be called in ``reset``, after the rubric's.

        Args:
            prompt: The prompt, or its messages.
        """
        text = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        self._prompt = [dict(message) for message in text]

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Any:
        """Have the rubric score the episode; to be awaited.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        self.last_score = None  # that of the step before, which would stand where this score fails
        turns = [self._sample(action, observation) for action, observation in trajectory]
        return self.score(_rollout(self._prompt, turns, self._task), *trajectory[-1])

    def compute_step_rewards(self) -> list[float]:
        """Return the discounted score for each step; none before the episode has a score, and none where it failed."""
        return super().compute_step_rewards() if self._is_scored and self.last_score is not None else []

    def reset(self) -> None:
        """Begin an episode: forget the turns and the prompt."""
        super().reset()
        self._prompt = []

    def episode_state(self) -> Any:
        """Return the prompt and the turns, for a snapshot."""
        turns = super().episode_state()
        return {"prompt": self._prompt, "turns": turns} if self._prompt or turns else None

    def load_episode_state(self, state: Any) -> None:
        """Restore the prompt and the turns."""
        super().load_episode_state(state["turns"])
        self._prompt = state["prompt"]


class VerifiersGroupReward:
    """Reward function of TRL by a rubric of verifiers with functions that compare the rollouts of a group.

    The data set's columns are the rubric's ``info``, and ``answer`` among them its right answer. The rollouts of a
    group stand together, as in TRL. Without ``num_generations`` a group ends where the next prompt differs. This finds
    the groups where neighbours in the data set have different prompts; a data set with one prompt for all, and
    different seeds, needs ``num_generations``.

    Args:
        rubric: The rubric.
        task: Name of the task, for rubrics that tell tasks apart.
        num_generations: Number of rollouts of a group, as in TRL's configuration, and the same in its evaluations. Each
            process has to have whole groups: its number of rollouts is a multiple of this.

    Raises:
        ValueError: ``num_generations`` is less than 1.

    Attributes:
        __name__: What TRL calls it in its metrics.

    Example::

        def longest(completions, **_) -> list[float]:
            lengths = [len(completion[-1]["content"]) for completion in completions]
            return [float(length == max(lengths)) for length in lengths]

        trainer = GRPOTrainer(..., reward_funcs=[VerifiersGroupReward(vf.Rubric(funcs=[longest]), num_generations=8)])
    """

    def __init__(
        self, rubric: VerifiersGroupRubric, *, task: str = "default", num_generations: int | None = None
    ) -> None:
        if num_generations is not None and num_generations < 1:
            raise ValueError(f"num_generations must be at least 1, got {num_generations}")
        self.__name__ = "verifiers_group_reward"
        self._rubric = rubric
        self._task = task
        self._group_size = num_generations

    def __call__(self, *, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """Score the rollouts of a batch.

        Args:
            prompts: The prompt of each: a text, or messages.
            completions: What the model wrote: a text, or messages.
            **columns: Further values of the data set by name, one for each rollout; what is no such list is left out.

        Raises:
            ValueError: The rubric wrote no finite reward for one of them; or the batch is not made of whole groups: it
                is no multiple of ``num_generations``, or without that the groups that the prompts show differ in size.
        """
        states = [
            self._state(place, prompt, completion, columns)
            for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        ]
        size = self._group_size or _size_of_groups(prompts)
        if len(states) % size:
            raise ValueError(
                f"Expected whole groups of num_generations={size} rollouts, got {len(states)} rollouts: the batch of "
                "each process has to be a multiple of it."
            )
        groups = [states[start : start + size] for start in range(0, len(states), size)]
        background_loop().run(self._score(groups))
        return [self._reward(state) for state in states]

    def _state(self, place: int, prompt: Any, completion: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
        lists = {name: values for name, values in columns.items() if isinstance(values, list)}
        info = {name: values[place] for name, values in lists.items() if len(values) > place}
        rollout = {
            "prompt": _messages("user", prompt),
            "completion": _messages("assistant", completion),
            "answer": str(info.get("answer", "")),
            "info": info,
            "task": self._task,
        }
        return _state_of(rollout)

    async def _score(self, groups: Sequence[list[dict[str, Any]]]) -> None:
        for states in groups:
            await self._rubric.score_group(states)

    def _reward(self, state: Mapping[str, Any]) -> float:
        reward = state.get("reward")
        if not isinstance(reward, int | float) or not isfinite(reward):
            raise ValueError(
                f"Expected {type(self._rubric).__name__}.score_group to write a finite reward, got {reward!r:.100}."
            )
        return float(reward)


def _size_of_groups(prompts: Sequence[Any]) -> int:
    """Return the number of rollouts of each group, which is that of neighbours with the same prompt.

    Raises:
        ValueError: It is not the same for all, so equal prompts are neighbours by chance, or a group is cut.
    """
    sizes = {sum(1 for _ in same) for _, same in groupby(prompts)}
    if len(sizes) > 1:
        raise ValueError(
            f"Expected groups of one size, got {', '.join(map(str, sorted(sizes)))} neighbours with the same prompt: "
            "num_generations says how many rollouts a group has."
        )
    return sizes.pop() if sizes else 1


def _rollout(prompt: list[dict[str, Any]], turns: Sequence[Sample], task: str) -> dict[str, Any]:
    """Return what a rubric reads of a rollout: each turn's completion, and between two what was shown."""
    completion = []
    for place, turn in enumerate(turns):
        completion.append({"role": "assistant", "content": turn.completion})
        if place < len(turns) - 1 and turn.prompt:
            completion.append({"role": "user", "content": turn.prompt})
    last = turns[-1]
    columns = dict(last.columns)
    return {"prompt": prompt, "completion": completion, "answer": last.target or "", "info": columns, "task": task}


def _state_of(rollout: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state of verifiers, into which its rubrics write."""
    return {"example_id": 0, **rollout, "reward": None, "metrics": {}, "trajectory": [], "timing": {}}


def _messages(role: str, written: Any) -> list[dict[str, Any]]:
    return [{"role": role, "content": written}] if isinstance(written, str) else [dict(each) for each in written]


def _weights_of(rubric: Any) -> Iterator[tuple[str, float]]:
    """Yield the names and weights of a rubric's functions, and of the rubrics that it is a group of."""
    functions, weights = getattr(rubric, "funcs", ()), getattr(rubric, "weights", ())
    for function, weight in zip(functions, weights, strict=False):
        yield getattr(function, "__name__", repr(function)), float(weight)
    for each in getattr(rubric, "rubrics", ()):
        yield from _weights_of(each)
