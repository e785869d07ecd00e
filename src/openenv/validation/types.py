"""Words of validation: levels of checks, lanes, states of a check, severities, verdicts, kinds of packages."""

from enum import IntEnum, StrEnum


class Level(IntEnum):
    """Level of a check; each level needs more of the environment than the one before.

    Attributes:
        STATIC: The files are read, and nothing of the environment runs.
        RUNTIME: The environment runs, and episodes are played.
        SEMANTIC: Rewards and tasks are judged: the oracle, the floor, exploits.
        STATISTICAL: Many episodes of several players are compared.

    Example:
        >>> Level.STATIC < Level.RUNTIME
        True
    """

    STATIC = 1
    RUNTIME = 2
    SEMANTIC = 3
    STATISTICAL = 4


class Lane(StrEnum):
    """Machine that a check is meant for.

    Attributes:
        LOCAL: The author's machine.
        HUB: A machine of the Hub.

    Example:
        >>> Lane("local") is Lane.LOCAL
        True
    """

    LOCAL = "local"
    HUB = "hub"


class CheckStatus(StrEnum):
    """Status of a check's result; how much a fault weighs is the policy's matter.

    Attributes:
        PASS: No fault was found.
        FAIL: A fault was found.
        SKIP: The check was not made, and the evidence has the reason.
        ERROR: The check itself failed.

    Example:
        >>> CheckStatus("skip").name
        'SKIP'
    """

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class Severity(StrEnum):
    """Weight of a check that fails.

    Attributes:
        FAIL: The verdict is ``fail``.
        WARN: The verdict is ``warn``.
        ADVISORY: The verdict is ``warn``; the number is for information.

    Example:
        >>> Severity("warn").name
        'WARN'
    """

    FAIL = "fail"
    WARN = "warn"
    ADVISORY = "advisory"


class Verdict(StrEnum):
    """Verdict over a package.

    Attributes:
        PASS: All checks passed.
        WARN: Some check was left out, or failed without failing the package.
        FAIL: A check failed, or had an error.

    Example:
        >>> Verdict("warn").name
        'WARN'
    """

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    FAIL = "fail"


class SignatureKind(StrEnum):
    """Kind of a package, by the file that every package of the kind has.

    Attributes:
        OPENENV_SERVED: An environment that OpenEnv serves.
        HARBOR_TASK: A task of Harbor.
        POSTTRAIN_TASK: A task in a Markdown file with front matter.

    Example:
        >>> SignatureKind.OPENENV_SERVED.value
        'openenv.yaml'
    """

    OPENENV_SERVED = "openenv.yaml"
    HARBOR_TASK = "task.toml"
    POSTTRAIN_TASK = "task.md"


class ProviderCapability(StrEnum):
    """Ability of a validation provider.

    Attributes:
        NETWORK_POLICY: Enforces and measures a network policy.
        EXEC: Runs programs beside the environment.
        IMAGE_BUILD: Builds an image.
        GPU: Gives an environment a GPU.
        REMOTE: Runs environments on another machine.

    Example:
        >>> ProviderCapability("exec").name
        'EXEC'
    """

    NETWORK_POLICY = "network_policy"
    EXEC = "exec"
    IMAGE_BUILD = "image_build"
    GPU = "gpu"
    REMOTE = "remote"
