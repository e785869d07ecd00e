"""State of a sandbox, packed so that another one can continue from it."""

from base64 import b64decode, b64encode

from openenv.core.exceptions import SandboxError
from openenv.core.sandbox import Execution, Sandbox

_ARCHIVE = ".openenv-snapshot.tar"
_MOST_BYTES = 8 * 2**20
# Of what is in the work folder, and not of the folder, which is not the agent's to change.
_PACKING = (
    f"set -o pipefail; find . -mindepth 1 -maxdepth 1 -not -name {_ARCHIVE} -print0 | "
    f"tar --create --file {_ARCHIVE} --null --files-from -"
)
_SHELL_STATE = 'echo cd "$(printf %q "$PWD")"; export -p'


def pack(sandbox: Sandbox) -> dict[str, str]:
    """Return a sandbox's work folder, and the shell's folder and exported variables, as JSON values.

    Args:
        sandbox: The sandbox, which stays as it is.

    Raises:
        SandboxError: It has become more than can be packed.
    """
    sandbox.run(["rm", "-rf", _ARCHIVE])
    _check(sandbox.run(["bash", "-c", _PACKING]), "packed")
    files = sandbox.read_file(_ARCHIVE, _MOST_BYTES)
    sandbox.run(["rm", "-f", _ARCHIVE])
    shell = sandbox.shell(_SHELL_STATE)
    _check(shell, "packed")
    return {"files": b64encode(files).decode(), "shell": shell.stdout}


def unpack(sandbox: Sandbox, packed: dict[str, str]) -> None:
    """Give a new sandbox the state of another one. The agent's files are read by nothing but its new sandbox.

    Args:
        sandbox: An unused sandbox.
        packed: What ``pack`` has returned.

    Raises:
        SandboxError: That does not succeed.
    """
    sandbox.write_file(_ARCHIVE, b64decode(packed["files"]))
    _check(sandbox.run(["tar", "--extract", "--file", _ARCHIVE]), "unpacked")
    sandbox.run(["rm", "-f", _ARCHIVE])
    _check(sandbox.shell(packed["shell"]), "unpacked")


def _check(done: Execution, what: str) -> None:
    if done.exit_code != 0 or done.truncated:
        raise SandboxError(f"The sandbox can't be {what}: {done.stderr.strip() or done.stopped:.300}")
