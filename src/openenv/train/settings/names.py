"""Names that nothing has, refused before a training loads its libraries: environments, their tasks, models, runs."""

from pathlib import Path

from openenv.auto.making import make
from openenv.auto.target import Target, TargetKind
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import nearest_name
from openenv.records.run_folder import RunFolder
from openenv.train.models import PACKAGED, is_gguf
from openenv.train.settings.config import TINY, TrainConfig, load_config
from openenv.train.tasks.task_choice import named_tasks

HUB_TIMEOUT_S = 10

__all__ = ["check_environment", "check_model", "check_names", "check_run"]


def check_names(config: TrainConfig) -> None:
    """Refuse a run of an unknown environment, unknown tasks or an unknown model."""
    check_model(config.model)
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
        for name in tasks:
            named_tasks(name, blocking)
    finally:
        blocking.close()


def check_model(model: str) -> None:
    """Refuse a name that no language model has; a Hub that can't be reached is left for the loading to complain of."""
    folder = Path(model).expanduser()
    if model in (TINY, *PACKAGED) or (folder / "config.json").is_file() or is_gguf(folder):
        return
    if folder.is_dir():
        raise ConfigurationError(f"Expected a folder with the files of a language model, got {model}: no config.json.")
    # An id has an owner; only a few of the oldest models have none.
    nearest = nearest_name(model, [TINY, *PACKAGED])
    hint = f" Did you mean {nearest!r}?" if nearest else ""
    if hint or model.startswith((".", "/", "~")) or not _is_on_the_hub(model):
        raise ConfigurationError(
            f"There is no model {model!r}. Expected {TINY!r}, {' or '.join(map(repr, PACKAGED))}, the id of a causal "
            f"language model on the Hugging Face Hub, a folder with its files, or a GGUF file.{hint}"
        )


def _is_on_the_hub(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    from openenv.hub.library import HfApi, HTTPError, RepositoryNotFoundError

    try:
        if not try_to_load_from_cache(model, "config.json"):
            HfApi().model_info(model, timeout=HUB_TIMEOUT_S)
    except (RepositoryNotFoundError, ValueError):  # there is no such model, or none can have such an id
        return False
    except (HTTPError, OSError):
        return True
    return True


def check_run(path: Path) -> None:
    """Refuse to resume what is no run, or a run whose environment is gone."""
    check_names(load_config(RunFolder.reopen(path).config))
