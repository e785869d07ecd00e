"""Environment classes of the OpenReward SDK, played in this process; that they are imported is tried in tests/cli."""

from typing import Any, ClassVar

import pytest
from openreward.environments import Environment as OrsClass
from openreward.environments import TextBlock, ToolOutput, tool

from openenv.adapters.ors.project import OrsProjectEnvironment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.exceptions import ResetNeededError
from openenv.core.wire.redaction import redact

SECRET = "a-secret-of-this-test"


class Fragile(OrsClass):  # type: ignore[misc]  # the SDK has no types
    """Fails in its setup and in its teardown for a task that says so."""

    closed: ClassVar[list[str]] = []

    @classmethod
    def list_splits(cls) -> list[Any]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[Any]:
        return [{"word": "good"}, {"word": "bad"}]

    def setup(self) -> None:
        self.fail_if_bad("setup")

    def teardown(self) -> None:
        self.closed.append(self.task_spec["word"])
        self.fail_if_bad("teardown")

    def fail_if_bad(self, where: str) -> None:
        if self.task_spec["word"] == "bad":
            raise ValueError(f"it fails in its {where}")

    def get_prompt(self) -> list[Any]:
        return [TextBlock(text=self.task_spec["word"])]

    @tool  # type: ignore[untyped-decorator]
    def look(self) -> ToolOutput:
        """Look around."""
        return ToolOutput(blocks=[])


class FragileEnvironment(OrsProjectEnvironment):
    SECRETS: ClassVar[dict[str, str]] = {"service": "OPENENV_TEST_SERVICE"}
    ors_class = Fragile


async def test_a_setup_that_fails_leaves_no_instance() -> None:
    env = FragileEnvironment()
    assert (await env.reset(index=0)).prompt == "good"
    with pytest.raises(ValueError, match="it fails in its setup"):
        await env.reset(index=1)
    assert Fragile.closed == ["good", "bad"]
    with pytest.raises(ResetNeededError):
        await env.step(CallToolAction(tool_name="look"))
    await env.close()
    assert Fragile.closed == ["good", "bad"]


async def test_its_secrets_are_removed_from_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TEST_SERVICE", SECRET)
    assert redact(SECRET) == SECRET
    env = FragileEnvironment()
    await env.reset(index=0)
    assert redact(SECRET) == "[redacted]"
    await env.close()
