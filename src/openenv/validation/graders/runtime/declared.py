"""Graders of what a package declares about its tools and tasks, by what its running server lists."""

from collections.abc import Iterator

from openenv.core.client.blocking import wait_for
from openenv.core.client.mcp import fetch_tools
from openenv.core.exceptions import OpenEnvError
from openenv.core.generic_client import GenericEnvClient
from openenv.validation.graders import Subject
from openenv.validation.graders.runtime.basic import EvidenceGrader, UncheckedError
from openenv.validation.runtime.contracts import RuntimeEvidence
from openenv.validation.trials import Client

_TIMEOUT_S = 60.0


class ToolDeclarationGrader(EvidenceGrader):
    """Check that the server has the declared tools, and no others.

    Example:
        >>> ToolDeclarationGrader().requires_capabilities
        frozenset({'declared_tools'})
    """

    check_id = "runtime.tool_declaration_accuracy"
    requires_capabilities = frozenset({"declared_tools"})

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each tool that is missing or not declared."""
        declared = set(subject.manifest.capabilities.declared_tools)
        try:
            with _client(subject) as client:
                listed = {tool.name for tool in wait_for(fetch_tools, client.async_client)}
        except OpenEnvError as error:
            return [f"the server lists no tools: {error}"]
        missing = [f"{name} is declared, and the server has no such tool" for name in sorted(declared - listed)]
        return [*missing, *(f"{name} is a tool that is not declared" for name in sorted(listed - declared))]


class TaskDeclarationGrader(EvidenceGrader):
    """Check that each split has the declared number of tasks.

    Example:
        >>> TaskDeclarationGrader().requires_capabilities
        frozenset({'declared_task_count'})
    """

    check_id = "runtime.task_declaration_accuracy"
    requires_capabilities = frozenset({"declared_task_count"})

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each split with another number of tasks."""
        with _client(subject) as client:
            return list(_differences(client, subject.manifest.capabilities.declared_task_count))


def _differences(client: Client, declared: dict[str, int]) -> Iterator[str]:
    for split, number in declared.items():
        try:
            listed = client.num_tasks(split)
        except OpenEnvError as error:
            yield f"{split}: {number} tasks are declared, and the server does not count them: {error}"
        else:
            if listed != number:
                yield f"{split}: {number} tasks are declared, and the server has {listed}"


def _client(subject: Subject) -> Client:
    if subject.running is None:
        raise UncheckedError("the subject does not run")
    return GenericEnvClient(base_url=subject.running.base_url, message_timeout_s=_TIMEOUT_S).sync()
