"""Check of the examples that a run learns from before GRPO, without the libraries of training."""

from pathlib import Path

from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import Target, TargetKind
from openenv.core.exceptions import ConfigurationError
from openenv.train.rollout.sessions import Sessions, has_only_tools, package_of
from openenv.train.settings.config import TrainConfig

__all__ = ["call_examples_missing", "check_examples_named", "player_missing", "several_with_calls"]


def check_examples_named(config: TrainConfig) -> None:
    """Refuse a run that lacks examples, or names some that are not there."""
    for part in config.parts.values():
        package = package_of(part.environment)
        if isinstance(part.sft, int):
            if package is None or package.manifest.player is None:
                raise player_missing(Sessions.name_of(part.environment))
        elif part.sft is not None and "://" not in part.sft and not Path(part.sft).exists():
            raise ConfigurationError(
                f"There is no {part.sft} to learn from: expected a folder that openenv collect has made, or a file or "
                "database of traces."
            )
        if config.is_tiny and (part.sft is None or len(config.parts) > 1) and _calls_tools(part.environment, package):
            name = Sessions.name_of(part.environment)
            raise several_with_calls(list(config.parts)) if len(config.parts) > 1 else call_examples_missing(name)


def player_missing(name: str) -> ConfigurationError:
    """Return the error of an environment without a scripted player that examples are wanted of."""
    return ConfigurationError(
        f"{name} has no scripted player to learn from; give --sft a folder that openenv collect has made, "
        "or a file or database of traces."
    )


def call_examples_missing(name: str) -> ConfigurationError:
    """Return the error of a tiny policy without examples in an environment that has only tools."""
    return ConfigurationError(
        f"{name} has tools and no other actions, and the tiny policy begins with random weights, with which it "
        "never writes a whole call. Let it learn calls first: --sft N takes episodes of the scripted player, --sft "
        "FOLDER those of openenv collect --form tools. Or take a model that calls tools, such as --model "
        "Qwen/Qwen3-0.6B."
    )


def several_with_calls(names: list[str]) -> ConfigurationError:
    """Return the error of a tiny policy in several environments, one of which has only tools."""
    return ConfigurationError(
        f"The tiny policy can learn calls of tools in one environment only, and these are {', '.join(names)}. "
        "Train them in separate runs, or take a pretrained model."
    )


def _calls_tools(environment: str, package: EnvironmentPackage | None) -> bool:
    # Without a package only the server knows the actions, and one that does not run yet takes seconds to start.
    is_known = package is not None or Target.of(environment).kind is TargetKind.ADDRESS
    return is_known and has_only_tools(environment, package)
