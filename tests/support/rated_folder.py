"""An environment's folder whose rewards are decided by a file of their own."""

from pathlib import Path

from tests.support.environment_folders import write_files

RUBRIC = """
    from openenv.core.rubrics import Rubric, WeightedSum


    class First(Rubric):
        def forward(self, action, observation):
            return {first} if observation.last == "left" else {other}


    def turn_reward() -> WeightedSum:
        return WeightedSum({{"first": First()}}, [1.0])
    """

ENVIRONMENT = """
    from typing import Literal

    from openenv import Action, Environment, Observation, State

    from .rewards import turn_reward


    class Turn(Action):
        move: Literal["left", "right"]


    class Turned(Observation):
        last: str


    class TurnEnvironment(Environment[Turn, Turned, State]):
        SUPPORTS_CONCURRENT_SESSIONS = True
        BLOCKING = False

        def __init__(self):
            super().__init__(rubric=turn_reward())
            self._steps = 0

        def reset(self, seed=None) -> Turned:
            self._reset_rubric()
            self._steps = 0
            return Turned(last="")

        def step(self, action: Turn) -> Turned:
            self._steps += 1
            turned = Turned(last=action.move, done=self._steps == 3)
            turned.reward = self._apply_rubric(action, turned)
            return turned

        @property
        def state(self) -> State:
            return State(step_count=self._steps)
    """


def rated_environment(parent: Path, name: str = "turns_env") -> Path:
    """Make an environment that pays 1 for each ``left``, by ``server/rewards.py``."""
    files = {
        "openenv.yaml": f"name: {name}\nenvironment: server.turn_environment:TurnEnvironment\n",
        "__init__.py": "",
        "server/__init__.py": "",
        "server/turn_environment.py": ENVIRONMENT,
    }
    folder = write_files(parent / name, files)
    rate(folder, 1.0, 0.0)
    return folder


def rate(folder: Path, first: float, other: float) -> None:
    """Change what the environment pays for ``left``, and for anything else."""
    write_files(folder, {"server/rewards.py": RUBRIC.format(first=first, other=other)})
