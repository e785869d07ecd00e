"""Checks before minutes are spent: of a training, an evaluation and a collection, without the libraries of training.

Each refuses in a sentence what would fail later, and leaves nothing. The lists are at the end.
"""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx

from openenv._extras import install_command
from openenv.auto.making import make
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import Target, TargetKind
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.core.reset_check import nearest_name
from openenv.records.run_folder import RunFolder
from openenv.train.machine import free_memory
from openenv.train.model_files import (
    ADDITIONS,
    chat_template_of,
    check_gguf,
    check_model_folder,
    lacks_tools,
    parameters_of,
)
from openenv.train.models import PACKAGED, is_gguf, stored_model
from openenv.train.rollout.sessions import Sessions, has_only_tools, package_of
from openenv.train.settings.config import TINY, TrainConfig, load_config
from openenv.train.settings.disk_use import checkpoint_bytes, gigabytes, run_bytes
from openenv.train.settings.memory_use import learned_weights, state_bytes
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.task_choice import named_tasks

if TYPE_CHECKING:
    from openenv.hub.library import HfApi

__all__ = [
    "call_examples_missing",
    "check_environment",
    "check_memory",
    "check_model",
    "check_play",
    "check_resumed",
    "check_trackers",
    "check_training",
    "check_vllm",
    "player_missing",
    "several_with_calls",
]

REQUIRED = ("torch", "transformers", "trl", "datasets", "peft", "matplotlib", "psutil")
# Modules of trackers, one of which transformers needs, by the tracker's name there; kubeflow is a service.
TRACKERS = {
    "azure_ml": ("azureml",),
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet_ml",),
    "dagshub": ("dagshub",),
    "dvclive": ("dvclive",),
    "flyte": ("flytekit",),
    "kubeflow": (),
    "mlflow": ("mlflow",),
    "neptune": ("neptune",),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
# Seconds that a model's server, and the Hub, have to answer.
_ANSWER_TIMEOUT_S = 1.5
# Of huggingface_hub, for its requests about files.
_HUB_TIMEOUT_VARIABLE = "HF_HUB_ETAG_TIMEOUT"
_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
_TOOL = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}}


def check_training(config: TrainConfig) -> None:
    """Refuse a training that would fail later, in less than two seconds where no Hub and no server is slow.

    Raises:
        OpenEnvError: The message names what is missing or wrong, and what to do.
    """
    for check in TRAINING_CHECKS:
        check(config)


def check_resumed(folder: Path) -> None:
    """Refuse to resume what is no run, or a run that lacks something by now; its examples may be gone."""
    config = load_config(RunFolder.reopen(folder).config)
    for check in TRAINING_CHECKS:
        if check not in (check_examples, check_disk):
            check(config)


def check_play(settings: PlaySettings) -> None:
    """Refuse an evaluation or a collection whose model can't play."""
    for check in PLAY_CHECKS:
        check(settings)


# --- This machine -----------------------------------------------------------------------------------------------------


def check_packages(config: TrainConfig) -> None:
    """Refuse to train without the libraries of training."""
    missing = [package for package in REQUIRED if find_spec(package) is None]
    if missing:
        raise ConfigurationError(f"Training needs {', '.join(missing)}: {install_command('train')}")


def check_trackers(config: TrainConfig) -> None:
    """Refuse trackers that there are none of, or whose package is not installed."""
    for tracker in config.report_to:
        if tracker in ("all", "none"):
            continue
        if tracker not in TRACKERS:
            nearest = nearest_name(tracker, TRACKERS)
            hint = f" Did you mean {nearest!r}?" if nearest else ""
            raise ConfigurationError(f"report_to {tracker}: expected one of {', '.join(TRACKERS)}.{hint}")
        modules = TRACKERS[tracker]
        if modules and not any(map(find_spec, modules)):
            raise ConfigurationError(
                f"report_to {tracker}: its package is not installed. Install it, as with pip install "
                f"{modules[0].replace('_', '-')}, or leave the tracker out."
            )


def check_vllm(config: TrainConfig) -> None:
    """Refuse a run with vLLM where that is not installed; a warm-up alone needs none."""
    if config.vllm is not None and config.grpo and find_spec("vllm") is None:
        raise ConfigurationError(
            'The settings have a section vllm, and vLLM is not installed. Install it with pip install "trl[vllm]", or '
            "leave the section out."
        )


def check_disk(config: TrainConfig) -> None:
    """Refuse a run whose checkpoints and models are larger than the disk's free bytes."""
    parameters = None if config.is_tiny else _parameters(config.model)
    if parameters is None:  # a model of the Hub that is not here yet
        return
    learned = learned_weights(config, parameters)
    needed = run_bytes(config, parameters, learned)
    output = config.output_dir.absolute()
    free = shutil.disk_usage(next(path for path in (output, *output.parents) if path.exists())).free
    if free < needed:
        additions = "" if config.lora else ", or learn additions alone, whose checkpoints are small: --lora"
        raise ConfigurationError(
            f"The run needs {gigabytes(needed)} on the disk of {config.output_dir}, and {gigabytes(free)} are free: a "
            f"checkpoint has {gigabytes(checkpoint_bytes(learned))}. Free some, name another disk with --output-dir, "
            f"keep fewer checkpoints with --checkpoints-kept{additions}."
        )


def check_memory(config: TrainConfig) -> None:
    """Refuse a run whose weights, gradients and averages alone are larger than the free memory."""
    parameters = None if config.is_tiny else _parameters(config.model)
    # The memory of a GPU is not known before torch is loaded.
    if parameters is None or (config.device == "auto" and any(map(os.path.exists, _GPU_FILES))):
        return
    needed, free = state_bytes(config, parameters), free_memory()
    if free < needed:
        additions = "" if config.lora else ", or learn additions alone, of which it needs less: --lora"
        raise ConfigurationError(
            f"A training of {config.model} needs {gigabytes(needed)} of memory without any episode, and "
            f"{gigabytes(free)} are free: weights, gradients and averages are kept in it. Free some, take a smaller "
            f"model{additions}."
        )


# --- Models -----------------------------------------------------------------------------------------------------------


def check_model(model: str) -> None:
    """Refuse a name that no language model has, files that are no whole one, and a Hub that can't be reached."""
    path = Path(model).expanduser()
    if model in (TINY, *PACKAGED):
        return
    if path.is_dir():
        check_model_folder(path)
        return
    if is_gguf(path):
        check_gguf(path)
        return
    if path.exists():
        raise ConfigurationError(f"Expected the folder of a language model or a GGUF file, got the file {model}.")
    # An id has an owner; only a few of the oldest models have none.
    nearest = nearest_name(model, [TINY, *PACKAGED])
    hint = f" Did you mean {nearest!r}?" if nearest else ""
    if hint or model.startswith((".", "/", "~")) or not _is_on_the_hub(model):
        raise ConfigurationError(
            f"There is no model {model!r}. Expected {TINY!r}, {' or '.join(map(repr, PACKAGED))}, the id of a causal "
            f"language model on the Hugging Face Hub, a folder with its files, or a GGUF file.{hint}"
        )


def check_model_of(config: TrainConfig) -> None:
    """Refuse a run of an unknown or broken model."""
    check_model(config.model)


def check_played_model(settings: PlaySettings) -> None:
    """Refuse a model that is to be loaded here and is none, or is not there yet."""
    if settings.model is None or settings.llm_endpoint is not None:
        return
    model, path = settings.model, Path(settings.model)
    run = RunFolder.of_model(path)
    if run.config.is_file():
        files, _ = run.weights_of(path)
        if not (files / ADDITIONS).is_file():
            check_model_folder(files)
    elif model == TINY:
        raise ConfigurationError(
            f"{TINY!r} is what `openenv train` trains, and there is none yet: train it, as in `openenv train "
            f"{quote(settings.environment)}`, and evaluate the folder of the run, with --model runs/..."
        )
    elif settings.base_url is not None and not path.exists() and model not in PACKAGED:
        raise ConfigurationError(
            f"{model} is no folder, and --base-url is the address of the environment's server. The address of a served "
            f"model is --llm-endpoint; for a model of the Hub, give ENV as the address, without --base-url."
        )
    elif "/" in model and path.parent.is_dir() and not path.exists():  # there are runs, and not this one
        raise ConfigurationError(
            f"There is no folder {model}, and it is no id of a model on the Hub, as in Qwen/Qwen3-0.6B. To evaluate a "
            "run, give its folder; to evaluate a model that is served, --llm-endpoint too."
        )
    else:
        check_model(model)


def check_endpoint(settings: PlaySettings) -> None:
    """Refuse a model's server that is not there, lacks the model, or takes no tools, by one request for one token.

    A server that takes long to answer is let through.
    """
    if settings.llm_endpoint is None or settings.action_form == "text":
        return
    key = settings.api_key
    body: dict[str, Any] = {"model": settings.model, "messages": [{"role": "user", "content": "Wait."}]}
    try:
        answer = httpx.post(
            f"{settings.llm_endpoint.rstrip('/')}/chat/completions",
            json={**body, "tools": [_TOOL], "max_tokens": 1},
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=_ANSWER_TIMEOUT_S,
        )
    except httpx.TimeoutException:
        return
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionFailedError(
            f"There is no answer from {settings.llm_endpoint}: {error}. Expected a model's OpenAI-compatible server."
        ) from error
    if answer.is_error and "tool" in answer.text.lower():
        raise ConfigurationError(
            f"The server of {settings.model} at {settings.llm_endpoint} takes no tools: {_message_of(answer)}. Start "
            "it so that it does (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: --jinja), take "
            "another model, or let actions be texts: --form text."
        )
    if answer.status_code in (401, 403, 404):
        raise ConfigurationError(
            f"The server of {settings.model} at {settings.llm_endpoint} answers {answer.status_code}: "
            f"{_message_of(answer)}."
        )


# --- Environments, tasks and examples ---------------------------------------------------------------------------------


def check_environments(config: TrainConfig) -> None:
    """Refuse a run of an unknown environment, or of tasks that it does not have."""
    for part in config.parts.values():
        names = (part.tasks, part.eval_tasks)
        check_environment(part.environment, *(name for name in names if isinstance(name, str)))


def check_environment(environment: str, *tasks: str) -> None:
    """Refuse an unknown environment or server, or splits and files of tasks that it does not have."""
    client = make(environment, max_sessions=1)
    # A server is started for a moment only where its tasks have to be listed.
    if not tasks and Target.of(environment).kind not in (TargetKind.ADDRESS, TargetKind.ADAPTED):
        return
    blocking = client.sync()
    try:
        # Neither takes a session, so that none is still in use when the run opens its own.
        blocking.schemas()
        package = package_of(environment)
        for name in tasks:
            named_tasks(name, blocking, task_sets=None if package is None else package.task_sets)
    finally:
        blocking.close()


def check_examples(config: TrainConfig) -> None:
    """Refuse a run that lacks examples, or names some that are not there."""
    for part in config.parts.values():
        package = package_of(part.environment)
        if isinstance(part.sft, int):
            if package is None or package.manifest.player is None:
                raise player_missing(Sessions.name_of(part.environment))
        elif part.sft is not None and "://" not in part.sft and not Path(part.sft).exists():
            raise ConfigurationError(
                f"There is no {part.sft} to learn from: expected a folder that openenv collect has made, or a file or "
                "database of traces."
            )


def check_calls(config: TrainConfig) -> None:
    """Refuse an environment of tools alone for a model that can't write calls, or has to learn them first."""
    for part in config.parts.values():
        if part.form != "tools" and not _calls_tools(part.environment, package_of(part.environment)):
            continue
        name = Sessions.name_of(part.environment)
        if config.is_tiny and len(config.parts) > 1:
            raise several_with_calls(list(config.parts))
        if config.is_tiny and part.sft is None:
            raise call_examples_missing(name)
        files = None if config.is_tiny else stored_model(config.model)
        template = chat_template_of(files) if files is not None and files.is_dir() else None
        if template is not None and "tools" not in template and not lacks_tools(template):
            raise ConfigurationError(
                f"Actions in {name} are calls of tools, and the chat template of {config.model} does not know tools. "
                f"Take a model that calls tools, or put a template that knows them into {files}/chat_template.jinja."
            )


def player_missing(name: str) -> ConfigurationError:
    """Return the error of an environment without a scripted player that examples are wanted of."""
    return ConfigurationError(
        f"{name} has no scripted player to learn from; give --sft a folder that openenv collect has made, "
        "or a file or database of traces."
    )


def call_examples_missing(name: str) -> ConfigurationError:
    """Return the error of a tiny policy without examples in an environment that has only tools."""
    return ConfigurationError(
        f"Actions in {name} are calls of tools, and the tiny policy begins with random weights, with which it never "
        "writes a whole call. Let it learn calls first: --sft N takes episodes of the scripted player, --sft "
        "FOLDER those of openenv collect --form tools. Or take a model that calls tools, such as --model "
        "Qwen/Qwen3-0.6B."
    )


def several_with_calls(names: list[str]) -> ConfigurationError:
    """Return the error of a tiny policy in several environments, one of which has only tools."""
    return ConfigurationError(
        f"The tiny policy can learn calls of tools in one environment only, and these are {', '.join(names)}. "
        "Train them in separate runs, or take a pretrained model."
    )


def _calls_tools(environment: str, package: EnvironmentPackage | None) -> bool:
    # Without a package only the server knows the actions, and one that does not run yet takes seconds to start.
    is_known = package is not None or Target.of(environment).kind is TargetKind.ADDRESS
    return is_known and has_only_tools(environment, package)


def _is_on_the_hub(model: str) -> bool:
    """Return whether the Hub has a model, or a download of it is in the cache.

    Raises:
        ConnectionFailedError: It is not in the cache, and the Hub gives no answer. The libraries that load models would
            wait for it for most of a minute.
    """
    from openenv.hub.library import HfApi, HTTPError

    hub = HfApi()
    limit_s = float(os.environ.get(_HUB_TIMEOUT_VARIABLE, _ANSWER_TIMEOUT_S))
    answer: Future[bool] = Future()
    # The limit of the request itself holds for each address of the Hub anew.
    Thread(target=_request_model, args=(hub, model, limit_s, answer), name="hub-request", daemon=True).start()
    try:
        return answer.result(limit_s)
    except (HTTPError, OSError, ValueError) as error:
        reason = f": {error}".rstrip(". ") if str(error) else ""
        raise ConnectionFailedError(
            f"{model} is no folder here and is not in the cache of this machine, and there is no answer from "
            f"{hub.endpoint} within {limit_s:g} s{reason}. Check the network, and HF_ENDPOINT and HF_HUB_OFFLINE if "
            f"they are set; give a slow Hub more seconds with {_HUB_TIMEOUT_VARIABLE}; or take a folder, a GGUF file "
            f"or {' or '.join(map(repr, PACKAGED))}, which need no Hub."
        ) from error


def _request_model(hub: "HfApi", model: str, limit_s: float, answer: Future[bool]) -> None:
    """Answer whether the cache or the Hub has a model, or with why that is not known."""
    from huggingface_hub import try_to_load_from_cache

    from openenv.hub.library import HfHubHTTPError, HFValidationError, HTTPError, RepositoryNotFoundError

    try:
        if not try_to_load_from_cache(model, "config.json"):
            hub.model_info(model, timeout=limit_s)
        answer.set_result(True)
    except (RepositoryNotFoundError, HFValidationError):  # there is no such model, or none can have such an id
        answer.set_result(False)
    except HfHubHTTPError:  # such as a server that is too busy, for which the libraries wait
        answer.set_result(True)
    except (HTTPError, OSError, ValueError) as error:
        answer.set_exception(error)


def _parameters(model: str) -> int | None:
    """Return the number of a model's weights; ``None`` of one that is not on this machine."""
    if model in PACKAGED:
        return PACKAGED[model].parameters
    files = stored_model(model)
    return None if files is None else parameters_of(files)


def _message_of(answer: httpx.Response) -> str:
    """Return what the answer of a model's server has of an error, in one line."""
    return " ".join(answer.text.split())[:300]


TRAINING_CHECKS: tuple[Callable[[TrainConfig], None], ...] = (
    check_packages,
    check_trackers,
    check_vllm,
    check_model_of,
    check_disk,
    check_memory,
    check_environments,
    check_examples,
    check_calls,
)
"""Checks of a training: the cheapest first."""
PLAY_CHECKS: tuple[Callable[[PlaySettings], None], ...] = (check_played_model, check_endpoint)
"""Checks of an evaluation and a collection."""
