"""Tasks of environments: sets of them, and what lists show of them. Names are handed out on first use (PEP 562)."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.client.server_api import TaskAPIClient as TaskAPIClient
    from openenv.core.tasks.listed_tasks import DEFAULT_SPLIT as DEFAULT_SPLIT
    from openenv.core.tasks.listed_tasks import ListsTasks as ListsTasks
    from openenv.core.tasks.listed_tasks import Place as Place
    from openenv.core.tasks.listed_tasks import Splits as Splits
    from openenv.core.tasks.listed_tasks import TaskListing as TaskListing
    from openenv.core.tasks.listed_tasks import TaskRef as TaskRef
    from openenv.core.tasks.listed_tasks import read_tasks as read_tasks
    from openenv.core.tasks.sources import GeneratedTasks as GeneratedTasks
    from openenv.core.tasks.sources import TaskSource as TaskSource
    from openenv.core.tasks.sources import split_of as split_of
    from openenv.core.tasks.task_files import Task as Task
    from openenv.core.tasks.task_set import TaskFile as TaskFile
    from openenv.core.tasks.task_set import TaskSet as TaskSet
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.client.server_api": ("TaskAPIClient",),
            "openenv.core.tasks.listed_tasks": (
                "DEFAULT_SPLIT",
                "ListsTasks",
                "Place",
                "Splits",
                "TaskListing",
                "TaskRef",
                "read_tasks",
            ),
            "openenv.core.tasks.sources": ("GeneratedTasks", "TaskSource", "split_of"),
            "openenv.core.tasks.task_files": ("Task",),
            "openenv.core.tasks.task_set": ("TaskFile", "TaskSet"),
        },
    )
