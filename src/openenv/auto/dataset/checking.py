"""Checks of a dataset's environments, beyond the form of their ``environment.yaml``."""

from collections.abc import Iterator

from openenv.auto.dataset.opening import STEP_COLUMN, DatasetEnvironment, open_repository
from openenv.core.exceptions import OpenEnvError
from openenv.core.tasks.listed_tasks import TaskRef

__all__ = ["dataset_faults"]


def dataset_faults(reference: str) -> list[str]:
    """Return what is wrong with the environments of a dataset, each with its remedy. No code of them is run.

    Args:
        reference: As for ``open_dataset``; without an environment, all of them are checked.

    Raises:
        ConfigurationError: ``environment.yaml`` is not there, or not as it must be.
        HubError: There is no such dataset or revision, or the Hub can't be reached.

    Example::

        dataset_faults("./my_dataset")
    """
    return [fault for each in open_repository(reference) for fault in _faults(each)]


def _faults(opened: DatasetEnvironment) -> Iterator[str]:
    try:
        opened.declaration.openenv()
        counts = {split: opened.tasks.num_tasks(split) for split in opened.splits()}
    except OpenEnvError as error:
        yield str(error)
        return
    for split, count in counts.items():
        if count == 0:
            yield f"{opened.ref}: expected tasks in the split {split}, got none. Add rows, or leave the split out."
    first: dict[str, str] = {}
    for split, count in counts.items():
        for index in range(count):
            task = f"{split}[{index}]"
            if opened.tasks.row(TaskRef(split, index)).get(STEP_COLUMN) is not None:
                yield f"{opened.ref}: {task} has the column {STEP_COLUMN}, which chooses steps. Leave it out."
                return
            other = first.setdefault(opened.tasks.key(split, index), task)
            if other != task:
                yield (
                    f"{opened.ref}: expected each task once, got {other} and {task} with the same id, or the same "
                    "content and no id. Remove one of them."
                )
                return
