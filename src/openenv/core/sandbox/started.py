"""The processes of a sandbox that was started, with bubblewrap or without."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class StartedSandbox(NamedTuple):
    """A sandbox.

    Attributes:
        process: The process outside; it ends with the sandbox.
        first: A descriptor of the first process inside, whose end is that of all the others; ``None`` if there is none.
        group: The control group of those inside, if there is one.
    """

    process: "subprocess.Popen[bytes]"
    first: int | None = None
    group: Path | None = None
