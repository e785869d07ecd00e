"""Helpers of environments for agents that write code: an interpreter with few names, repositories on a Git server.

``PyExecutor`` is ``None`` where smolagents is not installed. Code that must not harm the machine belongs into
``openenv.core.sandbox``.
"""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.tools.git_server_client import GitServerClient as GitServerClient
    from openenv.core.tools.git_server_client import RepoInfo as RepoInfo
    from openenv.core.tools.local_python_executor import PyExecutor as PyExecutor
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.tools.git_server_client": ("GitServerClient", "RepoInfo"),
            "openenv.core.tools.local_python_executor": ("PyExecutor",),
        },
        optional={"PyExecutor": "smolagents"},
    )
