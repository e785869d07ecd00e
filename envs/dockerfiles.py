"""Writes the Dockerfile of each environment from one template; ``python envs/dockerfiles.py`` after a change of either.

Each environment's folder keeps a Dockerfile of its own, because Docker and Spaces build it from that folder alone.
"""

from dataclasses import dataclass
from pathlib import Path
from string import Template

FOLDER = Path(__file__).parent
TEMPLATE = FOLDER / "Dockerfile.tmpl"

_LABELS = """\
# What LocalDockerProvider goes by: all but these folders may be read-only.
LABEL org.openenv.writable="/tmp /home/openenv"
"""
_SANDBOX_LABELS = """\
# What LocalDockerProvider goes by: all but these folders may be read-only, the server reaches nothing, and it makes
# sandboxes of its own. Another way to start it has to allow those: docker run --security-opt seccomp=unconfined
# --security-opt apparmor=unconfined --security-opt systempaths=unconfined ...
LABEL org.openenv.writable="/tmp /home/openenv" \\
    org.openenv.network="none" \\
    org.openenv.nested-sandbox="true"
"""


@dataclass(frozen=True)
class System:
    """Packages of the image's system that an environment needs.

    Attributes:
        programs: Programs that are there already in an image with the packages.
        packages: Names of the packages.
        reason: Comment on them; empty for none.
    """

    programs: tuple[str, ...]
    packages: tuple[str, ...]
    reason: str = ""

    @property
    def text(self) -> str:
        """The lines of the Dockerfile."""
        comment = f"# {self.reason}\n" if self.reason else ""
        found = " && ".join(f"command -v {program} >/dev/null" for program in self.programs)
        return (
            f"{comment}RUN {{ {found}; }} || {{ apt-get update -qq \\\n"
            f"    && apt-get install -qq -y --no-install-recommends {' '.join(self.packages)} "
            "&& rm -rf /var/lib/apt/lists/*; }\n"
        )


@dataclass(frozen=True)
class Image:
    """Differences of an environment's image from the template.

    Attributes:
        system: Packages of the system.
        variables: Lines that set environment variables.
        labels: Lines with the labels.
    """

    system: System | None = None
    variables: str = ""
    labels: str = _LABELS


_SANDBOX = Image(
    System(("bwrap",), ("bubblewrap", "libseccomp2"), "What the code that models write is kept in with."),
    labels=_SANDBOX_LABELS,
)
IMAGES = {
    "browsergym_env": Image(
        System(("chromium",), ("chromium",)),
        "# Docker does not let Chromium make its own sandbox; the container is around it instead.\n"
        "ENV BROWSERGYM_SANDBOX=0\n",
    ),
    "code_feedback_env": _SANDBOX,
    "coding_env": _SANDBOX,
    "reasoning_gym_env": Image(
        variables="# The same seed is the same question in every container: five datasets go by the order of sets.\n"
        "ENV PYTHONHASHSEED=0\n",
    ),
    "terminal_env": Image(
        System(("bwrap", "git"), ("bubblewrap", "libseccomp2", "git"), "The sandbox, and what tasks need in it."),
        labels=_SANDBOX_LABELS,
    ),
}
"""Images that differ from the template, by the environment's folder."""


def environments() -> list[str]:
    """Return the folders of all environments that are distributions."""
    return sorted(file.parent.name for file in FOLDER.glob("*/pyproject.toml"))


def dockerfile(environment: str) -> str:
    """Return the text of an environment's Dockerfile.

    Args:
        environment: Name of its folder.
    """
    image = IMAGES.get(environment, Image())
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        image=environment.replace("_", "-"),
        system="" if image.system is None else image.system.text,
        variables=image.variables,
        labels=image.labels,
    )


def main() -> None:
    """Write every Dockerfile."""
    for environment in environments():
        (FOLDER / environment / "server" / "Dockerfile").write_text(dockerfile(environment), encoding="utf-8")


if __name__ == "__main__":
    main()
