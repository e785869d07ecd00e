"""Text environments for SkyRL-Gym, registered by the import of this module."""

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput


class Countdown(BaseTextEnv):  # type: ignore[misc]  # SkyRL-Gym has no types
    """Counts down; shows what it was given, and closes once."""

    closed: list[int] = []  # noqa: RUF012  # shared by all on purpose

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.left = int((extras or {})["start"])
        self.step_by = env_config.get("step_by", 1)

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        return [*prompt, {"role": "user", "content": f"{self.left} left"}], {"start": self.left}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        if action == "fail":
            raise RuntimeError("failed on purpose")
        self.turns += 1
        self.left -= self.step_by
        return BaseTextEnvStepOutput(
            observations=[{"role": "user", "content": f"{self.left} left"}] if self.left > 0 else [],
            reward=0.25,
            done=self.left <= 0,
            metadata={"turn": self.turns},
            postprocessed_action=action.strip(),
        )

    def get_metrics(self) -> dict[str, Any]:
        return {"turns": self.turns}

    def close(self) -> None:
        self.closed.append(self.left)


class Plate(BaseTextEnv):  # type: ignore[misc]  # the same
    """Eats what is on its task's plate."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.plate = (extras or {})["plate"]

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        return [*prompt, {"role": "user", "content": self.plate.pop()}], {}


skyrl_gym.register("countdown", entry_point=Countdown)
skyrl_gym.register("plate", entry_point=Plate)
