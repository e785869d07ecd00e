"""TRL's ``rollout_func`` for any environment: episodes of many turns, all environments stepped at once."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

from openenv.adapters.text import ActionText
from openenv.core.client.tools import TRAINER_COLUMNS
from openenv.core.exceptions import ConfigurationError, FailureKind
from openenv.records.answers import AnswerRule, IllegalAnswers
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.failure_watch import FailureWatch
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.model_actor import ModelActor
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.rollout.play import Limits, Play
from openenv.train.rollout.renderer import Renderer, stop_ids_of
from openenv.train.rollout.rollout_recorder import RolloutBatch, RolloutRecorder
from openenv.train.rollout.tool_episode import EpisodeStep
from openenv.train.rollout.tool_renderer import ToolRenderer, Unreadable, reads_tool_calls
from openenv.train.samplers import TaskSampler
from openenv.train.tasks.order import prompt_groups
from openenv.train.tasks.seeds import derived_seed
from openenv.train.tasks.task_dataset import environment_of, unnumbered
from openenv.train.time_split import TimeSplit
from openenv.train.tools.contents import call_content
from openenv.train.trl.spec_tasks import SpecBase, SpecTasks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, TrainerState
    from trl.trainer.grpo_trainer import GRPOTrainer

__all__ = ["FormName", "RolloutFunction"]

FormName = Literal["auto", "tools", "text", "token"]

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class RolloutFunction:
    """Plays one episode for each prompt of the trainer's dataset; ``rollout_func`` of a spec makes one.

    The sessions are opened on the first call and stay; the spec ends them. What is sampled depends on the weights, the
    trainer's seed and the step, on nothing before it, so a resumed training samples what an undisturbed one would.
    With vLLM the randomness is vLLM's. Of several environments, each plays its prompts of a batch in turn.

    Where a spec has a ``sampler``, each group of a training plays the task that it draws instead of its own row, and
    the columns that reward functions get are the task's.

    Args:
        spec: The environment and its tasks, an `EnvSpec`; or several of them, an `EnvSpecs`.
        actions: How the model acts. ``tools``: by calls in its chat template. ``text``: an answer is the text of one
            action. ``token``: an answer is one token, where each of the environment's actions is one. ``auto`` takes
            tools if the model's chat template knows them, else text; a tokenizer without a chat template gets the plain
            renderer of the tiny policy, in which an action is one token where that is possible.
        max_action_tokens: Tokens that an answer may have; ``None`` for as many as fit into the completion.
        fallback: The text that an illegal text counts as; ``None`` for the rule of `ActionText`.
        unreadable: Result of a tool call that cannot be read. ``end``: the episode ends, as it does in TRL's own
            loop. ``tell``: the model reads the error, and may try again.
        max_context: Tokens after which an episode is cut off; ``None`` for as many as the model takes.
        illegal_penalty: Subtracted from an episode's reward for each illegal action; ``None`` for the spec's.
        illegal_answers: Effect of an illegal answer; ``None`` for the spec's. ``fallback``: it counts as the fallback
            action. ``end``: it ends its episode. ``penalty``: it is not played, and the model may answer again.
        lenient: Whether a text with exactly one legal value in it is read as that value.
        renderers: Renderers instead of those that ``actions`` chooses, by the environment's name in the specs, which is
            empty for a single one.
        recorder: Records the episodes; ``None`` for none.
        times: Split of time that generation and the environment are measured in; ``None`` for none.

    Example::

        with EnvSpec("catch", num_tasks=1000) as spec:
            trainer = GRPOTrainer(
                model="Qwen/Qwen3-0.6B",
                train_dataset=spec.train_dataset,
                reward_funcs=spec.reward_funcs,
                rollout_func=RolloutFunction(spec, actions="text", max_action_tokens=16),
            )
            trainer.train()
    """

    def __init__(
        self,
        spec: SpecBase,
        *,
        actions: FormName = "auto",
        max_action_tokens: int | None = None,
        fallback: str | None = None,
        unreadable: Unreadable = "end",
        max_context: int | None = None,
        illegal_penalty: float | None = None,
        illegal_answers: IllegalAnswers | None = None,
        lenient: bool = False,
        renderers: Mapping[str, Renderer] | None = None,
        recorder: RolloutRecorder | None = None,
        times: TimeSplit | None = None,
    ) -> None:
        if actions not in ("auto", "tools", "text", "token"):
            raise ConfigurationError(f"Expected 'auto', 'tools', 'text' or 'token' for actions, got {actions!r}.")
        if unreadable not in ("tell", "end"):
            raise ConfigurationError(f"Expected 'tell' or 'end' for unreadable, got {unreadable!r}.")
        given: dict[str, Any] = {"illegal_answers": illegal_answers, "illegal_penalty": illegal_penalty}
        given = {name: value for name, value in given.items() if value is not None}
        self._rollouts = {}
        for name, spec_tasks in spec._spec_tasks_by_name.items():
            rule = replace(spec_tasks.rule, fallback=fallback, lenient=lenient, **given)
            settings = _Settings(actions, max_action_tokens, unreadable, max_context, rule)
            renderer = (renderers or {}).get(name)
            self._rollouts[name] = _EnvironmentRollout(name, spec_tasks, settings, renderer, recorder, times)
        self._all_tasks = list(spec._spec_tasks_by_name.values())
        self._has_sampler = any(spec_tasks.sampler is not None for spec_tasks in self._all_tasks)
        self._has_one = list(self._rollouts) == [""]

    def __call__(self, prompts: Sequence[Any], trainer: "GRPOTrainer") -> dict[str, list[Any]]:
        """Play the episodes.

        Args:
            prompts: Prompts of the spec's ``train_dataset``, one for each episode.
            trainer: Generates, as it is set up.

        Returns:
            The fields of any ``rollout_func``: ``prompt_ids``, ``completion_ids``, ``logprobs`` (0 where the model was
            fed) and ``env_mask`` (1 where it wrote). And for reward functions, one for each episode:

            - ``environment_reward``: the sum of the environment's rewards, ``None`` where the episode failed;
            - ``failure``: the kind of that failure, else nothing;
            - ``training_reward``: the same less the penalty for illegal actions;
            - ``episode_reward``: the sum of the rewards, with what was reached before a failure;
            - ``episode_length``: the number of actions; ``illegal_actions``: how many of these were none;
            - ``illegal_texts``: the answers that these were;
            - ``episode_done``: whether the environment ended the episode, rather than a limit or the model;
            - ``cut_by``: the limit that did, ``max_turns`` or ``max_context``, or the rule for ``illegal_answers``,
              or nothing; ``cut_answers``: how many answers ended at ``max_action_tokens``; ``answers_without_call``:
              how many had no call of a tool that could be read;
            - ``reward_components``: the sum of each component's scores, by name; empty where there is no rubric;
            - ``step_rewards``: the credit of each action, where the environment has a trajectory rubric, else ``None``;
            - ``spent``: the tokens, the seconds and what participants used, under the names of a `Collection`;
            - ``opening``: the first observation, as text;
            - ``trajectory``: an `EpisodeStep` for each action, as the environments of ``environment_factory`` have it;
              where actions are texts, the tool is empty and the argument is ``text``;
            - ``environment_name``: of several environments, the name of the episode's.

        Raises:
            ConfigurationError: The model, the environment and the settings do not fit each other.
            EnvironmentFailedError: More than half of the last 32 episodes of an environment failed, beyond chance.
        """
        names = ["" if self._has_one else environment_of(prompt, self._rollouts) for prompt in prompts]
        episodes: list[dict[str, Any]] = [{} for _ in prompts]
        tasks: list[Mapping[str, Any]] = [{} for _ in prompts]
        for name in dict.fromkeys(names):
            own = [number for number, each in enumerate(names) if each == name]
            played = self._rollouts[name].play([prompts[number] for number in own], trainer)
            for number, (task, episode) in zip(own, played, strict=True):
                tasks[number], episodes[number] = task, episode
        fields = {field: [episode[field] for episode in episodes] for field in episodes[0]} if episodes else {}
        if self._has_sampler:  # the columns of the trainer's dataset are those of other tasks
            fields = {**self._columns(tasks), **fields}
        return fields if self._has_one else {**fields, "environment_name": names}

    def _columns(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Return the columns of tasks, and of all that a dataset's rows have."""
        rows = chain.from_iterable(spec_tasks.rows for spec_tasks in self._all_tasks)
        names = dict.fromkeys(chain.from_iterable(chain(rows, tasks)))
        return {name: [task.get(name) for task in tasks] for name in names if name not in TRAINER_COLUMNS}


@dataclass(frozen=True)
class _Settings:
    actions: FormName
    max_action_tokens: int | None
    unreadable: Unreadable
    max_context: int | None
    rule: AnswerRule


class _TaskDraws:
    """Tasks that a sampler draws for the groups of a training, in whose checkpoints its state is.

    The trainer's state is in the last file that it writes of a checkpoint: no whole checkpoint lacks it.
    """

    def __init__(self, environment: str, sampler: TaskSampler) -> None:
        self._sampler = sampler
        self._key = f"openenv sampler {environment}".rstrip()
        # State of the training that drew last; another training, or the same one when it is resumed, has another.
        self._state: TrainerState | None = None

    def draw(self, count: int, trainer: "GRPOTrainer") -> list[dict[str, Any]]:
        """Draw a task for each group, after those which the checkpoint of a resumed training has."""
        if trainer.accelerator.num_processes > 1:
            raise ConfigurationError(
                f"Expected a training in one process, since each would draw tasks by its own rewards; got "
                f"{trainer.accelerator.num_processes} processes. Leave out the sampler."
            )
        if trainer.state is not self._state:
            self._state = trainer.state
            if (kept := _callback_states(trainer).get(self._key)) is not None:
                self._sampler.load_state_dict(kept)
        tasks = self._sampler.sample(count)
        if len(tasks) != count:
            raise ConfigurationError(f"Expected {count} tasks of the sampler, got {len(tasks)}.")
        return tasks

    def update(self, task: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> None:
        """Have the sampler learn from the fields of a group's episodes; a failure has no reward."""
        rewards = [fields["environment_reward"] for fields in episodes]
        self._sampler.update(task, rewards, [float(sum(fields["env_mask"])) for fields in episodes])

    def keep(self, trainer: "GRPOTrainer") -> None:
        """Keep the state for the next checkpoint."""
        _callback_states(trainer)[self._key] = self._sampler.state_dict()


def _callback_states(trainer: "GRPOTrainer") -> dict[str, Any]:
    states: Any = trainer.state.stateful_callbacks
    return cast("dict[str, Any]", states)


class _EnvironmentRollout:
    """Plays the prompts of one environment."""

    def __init__(
        self,
        name: str,
        spec_tasks: SpecTasks,
        settings: _Settings,
        renderer: Renderer | None,
        recorder: RolloutRecorder | None,
        times: TimeSplit | None,
    ) -> None:
        self._recorder = recorder
        self._times = times
        self._name = name
        self._spec_tasks = spec_tasks
        self._draws = None if spec_tasks.sampler is None else _TaskDraws(name, spec_tasks.sampler)
        self._settings = settings
        self._given_renderer = renderer
        self._renderer: tuple[PreTrainedTokenizerBase, Renderer] | None = None
        self._calls: Counter[tuple[str, int]] = Counter()
        self._watch = FailureWatch()
        self._has_rewards = False

    def play(self, prompts: Sequence[Any], trainer: "GRPOTrainer") -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Play one episode for each prompt, and return the task and the fields of each."""
        from openenv.train.generation.trainers import max_context_of, trainer_generator

        renderer = self._given_renderer or self._renderer_for(trainer)
        args: Any = trainer.args
        model: Any = trainer.model
        max_context = min(max_context_of(trainer), self._settings.max_context or sys.maxsize)
        limits = Limits(self._spec_tasks.max_turns or sys.maxsize, max_context, args.max_completion_length)
        groups = prompt_groups(prompts)
        draws = self._draws if model.training else None
        drawn = [] if draws is None else draws.draw(len(groups), trainer)
        if draws is None:
            chosen = [(self._spec_tasks.task_of(prompt), unnumbered(prompt)) for prompt in prompts]
        else:
            chosen = [self._spec_tasks.drawn(task) for task, group in zip(drawn, groups, strict=True) for _ in group]
        plays = [self._play_of(number, task, renderer, limits) for number, (task, _) in enumerate(chosen)]
        with trainer_generator(trainer, seed=self._seed(trainer)) as generator:
            actor = ModelActor(generator, renderer, limits, [prompt for _, prompt in chosen])
            play_together(actor, plays, self._spec_tasks.sessions, self._times)
        for play in plays:
            if play.first is not None:
                self._spec_tasks.warn_of_hidden_text(play.first.observation)
        if self._recorder is not None:
            self._recorder.add(self._batch(plays, groups, trainer, renderer))
        self._watch_failures([play.episode for play in plays])
        fields = list(map(self._fields, plays))
        if draws is not None:
            for task, group in zip(drawn, groups, strict=True):
                draws.update(task, [fields[number] for number in group])
            draws.keep(trainer)
        return [(task, own) for (task, _), own in zip(chosen, fields, strict=True)]

    def _watch_failures(self, episodes: Sequence[Episode]) -> None:
        """End the training where most fail; for an environment without rewards the trainer may have functions."""
        self._has_rewards = self._has_rewards or any(each.done and each.error is None for each in episodes)
        self._watch.add(each for each in episodes if self._has_rewards or each.failure is not FailureKind.NO_REWARD)

    def _play_of(self, number: int, task: Mapping[str, Any], renderer: Renderer, limits: Limits) -> Play:
        parameters = self._spec_tasks.parameters_of(task)
        if self._recorder is not None:
            parameters = self._recorder.named(parameters)
        play = Play(
            task,
            number=number,
            max_turns=limits.max_turns,
            shown=renderer.shown,
            parameters=parameters,
            rule=self._settings.rule,
        )
        play.episode.episode_id = parameters.get("episode_id", play.episode.episode_id)
        return play

    def _batch(
        self, plays: Sequence[Play], groups: Sequence[list[int]], trainer: "GRPOTrainer", renderer: Renderer
    ) -> RolloutBatch:
        tokens = chain.from_iterable((*play.episode.prompt_ids, *play.episode.completion_ids) for play in plays)
        return RolloutBatch(
            self._name,
            trainer.state.global_step + 1,
            plays,
            [number for number, group in enumerate(groups) for _ in group],
            _sampling_of(trainer),
            renderer.form.tools,
            renderer.texts(tokens),
        )

    def _seed(self, trainer: "GRPOTrainer") -> int:
        """Return a seed of its own for each call, which a resumed training comes to again."""
        model: Any = trainer.model
        mode = "train" if model.training else "eval"
        step = trainer.state.global_step
        number = self._calls[mode, step]
        self._calls = Counter({(mode, step): number + 1})
        call = (mode, number, trainer.accelerator.process_index)
        # Nothing is added for the one call that most trainings make in a step.
        more = () if call == ("train", 0, 0) else call
        named = (self._name,) if self._name else ()
        return derived_seed(int(trainer.args.seed), "sampling", step, *named, *more)

    def _renderer_for(self, trainer: "GRPOTrainer") -> Renderer:
        from openenv.train.generation.trainers import tokenizer_of

        tokenizer = tokenizer_of(trainer)
        # Compared with the tokenizer itself: the id of one that is gone may be another's.
        if self._renderer is None or self._renderer[0] is not tokenizer:
            self._renderer = (tokenizer, self._make_renderer(tokenizer, trainer))
        return self._renderer[1]

    def _make_renderer(self, tokenizer: "PreTrainedTokenizerBase", trainer: "GRPOTrainer") -> Renderer:
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        template: Any = trainer.chat_template_kwargs
        settings = self._settings
        if settings.actions == "tools" or (settings.actions == "auto" and reads_tool_calls(tokenizer)):
            return ToolRenderer(
                tokenizer,
                ToolForm(self._spec_tasks.tools, self._spec_tasks.sessions.pixels),
                stop_ids_of(tokenizer, model),
                settings=template,
                max_action_tokens=settings.max_action_tokens,
                unreadable=settings.unreadable,
            )
        rule = settings.rule
        actions = ActionText(self._spec_tasks.sessions.action, rule.fallback, lenient=rule.lenient)
        longest = 1 if settings.actions == "token" else settings.max_action_tokens or sys.maxsize
        if settings.actions == "token":
            _check_tokens(tokenizer, actions)
        if not tokenizer.chat_template:
            return PlainRenderer(tokenizer, actions, longest)
        return ChatRenderer(
            tokenizer,
            model,
            TextForm(actions, actions.instructions(), self._spec_tasks.sessions.pixels),
            longest,
            settings=template,
        )

    def _fields(self, play: Play) -> dict[str, Any]:
        episode = play.episode
        trajectory = list(map(EpisodeStep.of, play.results))
        reached = sum(step.reward or 0.0 for step in trajectory)
        reward = None if episode.error else reached
        penalty = self._settings.rule.illegal_penalty * episode.illegal_actions
        return {
            "prompt_ids": episode.prompt_ids,
            "completion_ids": episode.completion_ids,
            "logprobs": episode.logprobs,
            "env_mask": episode.env_mask,
            "environment_reward": reward,
            "failure": "" if episode.failure is None else episode.failure.value,
            "training_reward": None if reward is None else reward - penalty,
            "episode_reward": reached,
            "episode_length": len(trajectory),
            "illegal_actions": episode.illegal_actions,
            "illegal_texts": episode.illegal_texts,
            "episode_done": episode.done,
            "cut_by": episode.cut_by or "",
            "cut_answers": episode.cut_answers,
            "answers_without_call": episode.answers_without_call,
            "reward_components": episode.reward_components,
            "step_rewards": episode.step_rewards,
            "spent": {
                "input_tokens": episode.tokens_read,
                "output_tokens": episode.tokens_written,
                **episode.spent,
            },
            "opening": ""
            if play.first is None
            else text_of(call_content(play.first, self._spec_tasks.sessions.pixels)),
            "trajectory": trajectory,
        }


def _check_tokens(tokenizer: "PreTrainedTokenizerBase", actions: ActionText) -> None:
    long = [choice for choice in actions.choices if len(tokenizer.encode(choice, add_special_tokens=False)) != 1]
    if long or not actions.choices:
        what = f"{long[0]!r} is several" if long else "there is no end of them"
        raise ConfigurationError(
            f"actions='token' needs actions that are one token of {tokenizer.name_or_path or 'the tokenizer'} each, "
            f"and {what}. Take actions='text'."
        )


def _sampling_of(trainer: "GRPOTrainer") -> dict[str, Any]:
    """Return the settings of sampling that are set."""
    own = {name: getattr(trainer, name) for name in _SAMPLING}
    given: Any = trainer.args.generation_kwargs  # type: ignore[attr-defined]
    return {name: value for name, value in {**own, **(given or {})}.items() if value is not None}
