"""``CommandReward``: a test command in a sandbox as a rubric."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.rewards.samples import ReadSample, SampleRubric
from openenv.core.sandbox import Kind, Sandbox, SandboxLimits

__all__ = ["CommandReward"]

_MOST_SHOWN = 2_000


class CommandReward(SampleRubric):
    """1 where a command succeeds beside the file that the model wrote, 0 where it fails or takes too long.

    Each call has a sandbox of its own. Code of the model that runs inside the tests' process could make them succeed;
    where that matters, compare outside what the code prints.

    Args:
        command: The command and its arguments, such as ``["python3", "test_answer.py"]``.
        file: Where the completion is written.
        files: Further files by path, such as the tests.
        limits: What the command may use.
        kind: How it is kept in, see ``Sandbox``.
        sample: Reads what is scored; by default `sample_of`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        file: str = "answer.py",
        files: Mapping[str, str] | None = None,
        limits: SandboxLimits | None = None,
        kind: Kind = "auto",
        sample: ReadSample | None = None,
    ) -> None:
        super().__init__(sample)
        self._command = list(command)
        self._file = file
        self._files = dict(files or {})
        self._limits = limits
        self._kind: Kind = kind
        self._evidence: dict[str, Any] | None = None

    def forward(self, action: Any, observation: Any) -> float:
        """Run the command.

        Raises:
            SandboxError: There is no sandbox, or a file can't be written.
        """
        sample = self._sample(action, observation)
        with Sandbox(self._limits, self._kind) as sandbox:
            sandbox.write_file(self._file, sample.completion)
            for path, text in self._files.items():  # after it, so that it replaces no test
                sandbox.write_file(path, text)
            done = sandbox.run(self._command)
        output = f"{done.stdout}{done.stderr}{done.stopped}"
        self._evidence = {"exit_code": done.exit_code, "output": output[-_MOST_SHOWN:]}
        return float(done.exit_code == 0)

    def evidence(self) -> Any:
        """Return the exit code and the end of the output of the last call."""
        return self._evidence
