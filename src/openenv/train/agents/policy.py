"""Policy that a run trains: a model, its tokenizer, and the renderer between it and the environment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.records.run_folder import RunFolder
from openenv.train.agents.agent import play
from openenv.train.agents.player_agent import PlayerAgent, PlayerMaker, form_of, random_players, scripted_players
from openenv.train.agents.tiny import build_model, build_tokenizer, words_of
from openenv.train.agents.tool_policy import build_call_tokenizer, call_renderer
from openenv.train.checks import call_examples_missing, several_with_calls
from openenv.train.episodes.episode import Episode
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.model_files import ADDITIONS, parameters_of
from openenv.train.models import local_model
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.rollout.renderer import Renderer
from openenv.train.rollout.sessions import Sessions
from openenv.train.rollout.tool_renderer import ToolRenderer, add_tools
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.memory_use import SIZES, model_sizes
from openenv.train.tasks.seeds import derived_seed, training_seeds
from openenv.train.tasks.task_choice import training_tasks
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["Policy", "load_policies", "make_policies", "make_policy", "sizes_of", "takes_gpu"]

VOCABULARY_EPISODES = 64
# Calls of tools are learned far worse from the usual 0.02 at this size; see docs/training.md.
_CALLER_WEIGHTS = 0.05


@dataclass(frozen=True)
class Policy:
    """Policy that a run trains or an evaluation plays.

    Attributes:
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        renderer: Turns observations into its tokens, and its tokens into actions.
        actions: The environment's actions as text.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    renderer: Renderer
    actions: ActionText

    def to_device(self, config: TrainConfig) -> None:
        """Move the model to the device on which a run of these settings computes."""
        if takes_gpu(config):
            self.model.to("cuda")  # type: ignore[arg-type]


def takes_gpu(config: TrainConfig) -> bool:
    """Return whether a run computes on a GPU."""
    # On 10,000 parameters a GPU loses more by its launches than it gains.
    return config.device == "auto" and not config.is_tiny and torch.cuda.is_available()


def sizes_of(model: str) -> dict[str, int] | None:
    """Return the sizes of a pretrained model by its configuration; ``None`` where that lacks some, or can't be read."""
    folder = local_model(model)
    try:
        own = AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError):  # its loading says why
        return None
    parameters = parameters_of(Path(folder)) if Path(folder).is_dir() else None
    return model_sizes({name: getattr(own, name, None) for name in SIZES}, parameters)


def make_policy(config: TrainConfig, sessions: Sessions) -> Policy:
    """Make the policy that a run starts with.

    Args:
        config: The run's settings.
        sessions: The environment; the tiny policy's vocabulary is gathered by playing it at random, and with its
            scripted player if it has one.

    Returns:
        The policy.

    Raises:
        ConfigurationError: There is no such model, or it is not made for conversation.
    """
    return make_policies(config, {"": sessions})[""]


def make_policies(
    config: TrainConfig, sessions: Mapping[str, Sessions], calls: Sequence[Episode] = ()
) -> dict[str, Policy]:
    """Make the policy that a run starts with, one model, with a renderer for each environment by its name.

    Args:
        config: The run's settings.
        sessions: The environments, by the names of ``config.parts``; see `make_policy`.
        calls: Examples of an environment that has only tools: their words and arguments are the tiny policy's
            vocabulary.

    Raises:
        ConfigurationError: There is no such model, it is not made for conversation, the tiny policy would have to
            choose in one environment and to write in another, or to call tools without examples.
    """
    if not config.is_tiny:
        return load_policies(config, sessions, config.model)
    parts = config.parts
    if any(own.tools is not None for own in sessions.values()):
        return _tiny_caller(config, sessions, calls)
    actions = {name: ActionText(sessions[name].action, part.fallback) for name, part in parts.items()}
    _check_same_kind(actions)
    choices = list(dict.fromkeys(chain.from_iterable(own.choices for own in actions.values())))
    texts = chain.from_iterable(_spoken_texts(actions[name], sessions[name], part) for name, part in parts.items())
    tokenizer = build_tokenizer(choices, texts)
    weights_seed = derived_seed(config.seed, "weights")
    model = build_model(tokenizer, hidden=config.tiny_hidden, layers=config.tiny_layers, seed=weights_seed)
    return _policies(config, sessions, model, tokenizer)


def load_policies(config: TrainConfig, sessions: Mapping[str, Sessions], source: str | Path) -> dict[str, Policy]:
    """Load a policy from a checkpoint's folder or the Hub: one model, with a renderer for each environment by its name.

    A checkpoint of additions gets the model that its run has added them to.

    Raises:
        ConfigurationError: There is no such model, or it is not made for conversation.
    """
    folder = local_model(str(source))
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        if any(own.tools is not None for own in sessions.values()):
            add_tools(tokenizer)
        if (Path(folder) / ADDITIONS).is_file():
            model = _with_additions(config, tokenizer, Path(folder))
        else:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=config.dtype)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"No language model could be loaded from {source}. Expected 'tiny', the id of a causal language model on "
            f"the Hugging Face Hub, or a folder with its files. The reason: {error}"
        ) from error
    return _policies(config, sessions, model, tokenizer)


def _with_additions(config: TrainConfig, tokenizer: Any, checkpoint: Path) -> "PreTrainedModel":
    """Load the model that a run has begun to train, or has warmed up, with the additions of a checkpoint merged."""
    from peft import PeftModel

    warm_up = RunFolder.of_model(checkpoint).warm_up
    if config.is_tiny and not warm_up.is_dir():
        seed = derived_seed(config.seed, "weights")
        base: Any = build_model(tokenizer, hidden=config.tiny_hidden, layers=config.tiny_layers, seed=seed)
    else:
        source = str(warm_up) if warm_up.is_dir() else local_model(config.model)
        base = AutoModelForCausalLM.from_pretrained(source, dtype=config.dtype)
    merged: PreTrainedModel = PeftModel.from_pretrained(base, checkpoint).merge_and_unload()
    return merged


def _check_same_kind(actions: Mapping[str, ActionText]) -> None:
    choosing = [name for name, own in actions.items() if own.choices]
    writing = [name for name, own in actions.items() if not own.choices]
    if choosing and writing:
        raise ConfigurationError(
            f"The tiny policy answers with one token in {choosing[0]}, which has a fixed number of actions, and with "
            f"several in {writing[0]}; it cannot learn both in one run. Train them separately, or take a "
            "pretrained model."
        )


def _policies(config: TrainConfig, sessions: Mapping[str, Sessions], model: Any, tokenizer: Any) -> dict[str, Policy]:
    # A run's settings may be used for one other environment, whatever that is called.
    parts = config.parts if sessions.keys() == config.parts.keys() else dict.fromkeys(sessions, config)
    return {name: _policy(part, sessions[name], model, tokenizer) for name, part in parts.items()}


def _policy(config: TrainConfig, sessions: Sessions, model: Any, tokenizer: Any) -> Policy:
    actions = ActionText(sessions.action, config.fallback, lenient=config.lenient)
    renderer: Renderer
    if sessions.tools is not None:
        renderer = _call_renderer(config, sessions, sessions.tools, model, tokenizer)
    elif config.is_tiny:
        renderer = PlainRenderer(tokenizer, actions, config.max_action_tokens)
    else:
        prompt = prompt_messages(sessions.goal, config.system_prompt)
        form = TextForm(actions, actions.instructions(), sessions.pixels, prompt)
        renderer = ChatRenderer(tokenizer, model, form, config.max_action_tokens, thinking=config.thinking)
    return Policy(model, tokenizer, renderer, actions)


def _tiny_caller(config: TrainConfig, sessions: Mapping[str, Sessions], calls: Sequence[Episode]) -> dict[str, Policy]:
    """Make a tiny policy that calls tools; it needs examples, without which it would never write a whole call."""
    if len(sessions) > 1:
        raise several_with_calls(list(sessions))
    ((name, own),) = sessions.items()
    if own.tools is None or not calls:
        raise call_examples_missing(own.name)
    tokenizer = build_call_tokenizer(own.tools, calls)
    model = build_model(
        tokenizer,
        hidden=config.tiny_hidden,
        layers=config.tiny_layers,
        seed=derived_seed(config.seed, "weights"),
        initializer_range=_CALLER_WEIGHTS,
    )
    return _policies(config, {name: own}, model, tokenizer)


def _call_renderer(
    config: TrainConfig, sessions: Sessions, tools: EnvironmentTools, model: Any, tokenizer: Any
) -> ToolRenderer:
    # A call of the tiny policy has two tokens for each argument, and three around them.
    most = max(len(tool.input_schema.get("properties", {})) for tool in tools.tools)
    tokens = max(config.max_action_tokens, 2 * most + 3) if config.is_tiny else config.max_action_tokens
    # The tiny policy knows the words of observations alone.
    prompt = None if config.is_tiny else prompt_messages(sessions.goal, config.system_prompt)
    form = ToolForm(tools, sessions.pixels, prompt)
    return call_renderer(tokenizer, model, form, max_action_tokens=tokens, thinking=config.thinking)


def _spoken_texts(actions: ActionText, sessions: Sessions, config: TrainConfig) -> Iterator[str]:
    """Yield observations and actions of some episodes, whose words are the vocabulary."""
    for reset in config.resets:
        yield from _texts_with(reset, actions, sessions, config)


def _texts_with(
    reset: Mapping[str, Any], actions: ActionText, sessions: Sessions, config: TrainConfig
) -> Iterator[str]:
    seeds = training_seeds(config.seed, min(len(sessions), VOCABULARY_EPISODES))
    tasks = training_tasks(config.tasks, sessions, len(seeds), seed=config.seed, reset=reset)
    results = sessions.try_reset(tasks)
    openings = [observation_text(result.observation) for result in results if isinstance(result, StepResult)]
    if not openings:
        raise next(result for result in results if isinstance(result, OpenEnvError))
    yield from openings
    words = words_of(openings) or list("abc")
    for make_player in (random_players(sessions, actions, words), scripted_players(sessions)):
        if make_player is not None:
            yield from _texts_of(make_player, seeds, tasks, sessions, config)


def _texts_of(
    make_player: PlayerMaker,
    seeds: Sequence[int],
    tasks: Sequence[Mapping[str, Any]],
    sessions: Sessions,
    config: TrainConfig,
) -> Iterator[str]:
    agent = PlayerAgent(
        make_player,
        lambda number, task: derived_seed(config.seed, "vocabulary", seeds[number]),
        form_of(sessions),
        config.max_turns,
    )
    for played in play(agent, enumerate(tasks), sessions):
        for turn in played.episode.turns:
            yield turn.observation
            yield turn.action
