"""Environment folders as authors write them for the public OpenEnv, in the styles that are about.

Nothing in them is ours: no key of the manifest that the public package lacks, no name that only our package has.
"""

from collections.abc import Callable
from pathlib import Path

from tests.support.environment_folders import write_files

DOCKERFILE = """
FROM python:3.11-slim
WORKDIR /app/env
COPY . /app/env
RUN pip install --no-cache-dir -r server/requirements.txt
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://localhost:8000/health')"
CMD ["uvicorn", "server.app:app", "--host", "0.0.0.0", "--port", "8000"]
"""


def _surroundings(name: str, title: str) -> dict[str, str]:
    """The files around the code, as the public scaffold has them."""
    return {
        "openenv.yaml": f"""
            spec_version: 1
            name: {name}
            type: space
            runtime: fastapi
            app: server.app:app
            port: 8000
            """,
        "README.md": f"""
            ---
            title: {title}
            emoji: 🎲
            colorFrom: blue
            colorTo: red
            sdk: docker
            pinned: false
            app_port: 8000
            base_path: /web
            tags:
              - openenv
            ---

            # {title}

            A small environment to try a server with. It was written for the public package, and says in this paragraph
            what it is about, as every environment should.
            """,
        "pyproject.toml": f"""
            [build-system]
            requires = ["setuptools>=45", "wheel"]
            build-backend = "setuptools.build_meta"

            [project]
            name = "openenv-{name}"
            version = "0.1.0"
            requires-python = ">=3.10"
            dependencies = ["openenv-core>=0.2.0"]

            [project.scripts]
            server = "{name}.server.app:main"

            [tool.setuptools]
            packages = ["{name}", "{name}.server"]
            package-dir = {{ "{name}" = ".", "{name}.server" = "server" }}
            """,
        "server/__init__.py": "",
        "server/Dockerfile": DOCKERFILE,
        "server/requirements.txt": "openenv-core\nfastapi\nuvicorn\n",
    }


def dice_env(parent: Path) -> Path:
    """Step style: ``create_app`` with a class, relative imports that fall back on absolute ones, a script."""
    files = {
        "__init__.py": """
            from .client import DiceEnv
            from .models import DiceAction, DiceObservation

            __all__ = ["DiceAction", "DiceEnv", "DiceObservation"]
            """,
        "models.py": """
            from openenv.core.env_server.types import Action, Observation
            from pydantic import Field


            class DiceAction(Action):
                hold: bool = Field(default=False, description="Stop and take the points")


            class DiceObservation(Observation):
                points: int = Field(default=0, description="Points of this turn")
                thrown: list[int] = Field(default_factory=list)
            """,
        "client.py": """
            from typing import Dict

            from openenv.core import EnvClient
            from openenv.core.client_types import StepResult
            from openenv.core.env_server.types import State

            from .models import DiceAction, DiceObservation


            class DiceEnv(EnvClient[DiceAction, DiceObservation, State]):
                def _step_payload(self, action: DiceAction) -> Dict:
                    return {"hold": action.hold}

                def _parse_result(self, payload: Dict) -> StepResult[DiceObservation]:
                    fields = payload.get("observation", {})
                    observation = DiceObservation(
                        points=fields.get("points", 0),
                        thrown=fields.get("thrown", []),
                        done=payload.get("done", False),
                        reward=payload.get("reward"),
                        metadata=fields.get("metadata", {}),
                    )
                    return StepResult(
                        observation=observation, reward=payload.get("reward"), done=payload.get("done", False)
                    )

                def _parse_state(self, payload: Dict) -> State:
                    return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))
            """,
        "server/dice_env_environment.py": """
            import random
            from uuid import uuid4

            from openenv.core.env_server.interfaces import Environment
            from openenv.core.env_server.types import State

            try:
                from ..models import DiceAction, DiceObservation
            except ImportError:
                from models import DiceAction, DiceObservation


            class DiceEnvironment(Environment):
                SUPPORTS_CONCURRENT_SESSIONS: bool = True

                def __init__(self):
                    self._state = State(episode_id=str(uuid4()), step_count=0)
                    self._thrown = []

                def reset(self, seed=None, episode_id=None, **kwargs) -> DiceObservation:
                    self._random = random.Random(seed)
                    self._thrown = []
                    self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
                    return DiceObservation(done=False, reward=0.0, metadata={"sides": kwargs.get("sides", 6)})

                def step(self, action: DiceAction) -> DiceObservation:  # type: ignore[override]
                    self._state.step_count += 1
                    if action.hold:
                        points = sum(self._thrown)
                        return DiceObservation(points=points, thrown=self._thrown, done=True, reward=points / 10)
                    self._thrown.append(self._random.randint(1, 6))
                    bust = self._thrown[-1] == 1
                    points = 0 if bust else sum(self._thrown)
                    return DiceObservation(points=points, thrown=self._thrown, done=bust, reward=0.0)

                @property
                def state(self) -> State:
                    return self._state
            """,
        "server/app.py": """
            try:
                from openenv.core.env_server.http_server import create_app
            except Exception as e:
                raise ImportError("openenv is required") from e

            try:
                from ..models import DiceAction, DiceObservation
                from .dice_env_environment import DiceEnvironment
            except (ImportError, ModuleNotFoundError):
                from models import DiceAction, DiceObservation
                from server.dice_env_environment import DiceEnvironment

            app = create_app(
                DiceEnvironment, DiceAction, DiceObservation, env_name="dice_env", max_concurrent_envs=4
            )


            def main(host: str = "0.0.0.0", port: int = 8000):
                import uvicorn

                uvicorn.run(app, host=host, port=port)


            if __name__ == "__main__":
                main()
            """,
    }
    return write_files(parent / "dice_env", {**_surroundings("dice_env", "Dice"), **files})


def notes_env(parent: Path) -> Path:
    """Tool style: ``MCPEnvironment`` around a FastMCP server, no models of its own."""
    files = {
        "__init__.py": """
            from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

            from .client import NotesEnv

            __all__ = ["CallToolAction", "ListToolsAction", "NotesEnv"]
            """,
        "client.py": """
            from openenv.core.mcp_client import MCPToolClient


            class NotesEnv(MCPToolClient):
                pass
            """,
        "server/notes_environment.py": """
            from typing import Any, Optional
            from uuid import uuid4

            from fastmcp import FastMCP
            from openenv.core.env_server.mcp_environment import MCPEnvironment
            from openenv.core.env_server.types import Action, Observation, State


            class NotesEnvironment(MCPEnvironment):
                def __init__(self):
                    mcp = FastMCP("notes_env")
                    self._notes = {}

                    @mcp.tool
                    def write(title: str, text: str = "") -> int:
                        '''Write a note and say how many there are.'''
                        self._notes[title] = text
                        return len(self._notes)

                    @mcp.tool
                    def read(title: str) -> str:
                        '''Read a note.'''
                        return self._notes[title]

                    super().__init__(mcp)
                    self._state = State(episode_id=str(uuid4()), step_count=0)

                def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs: Any):
                    self._notes.clear()
                    self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
                    return Observation(done=False, reward=0.0, metadata={"status": "ready"})

                def _step_impl(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any):
                    return Observation(
                        done=False, reward=0.0, metadata={"error": f"Unknown action type: {type(action).__name__}"}
                    )

                def step(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any):
                    self._state.step_count += 1
                    return super().step(action, timeout_s=timeout_s, **kwargs)

                async def step_async(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any):
                    self._state.step_count += 1
                    return await super().step_async(action, timeout_s=timeout_s, **kwargs)

                @property
                def state(self) -> State:
                    return self._state
            """,
        "server/app.py": """
            from openenv.core.env_server.http_server import create_app
            from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

            try:
                from .notes_environment import NotesEnvironment
            except ImportError:
                from server.notes_environment import NotesEnvironment

            app = create_app(NotesEnvironment, CallToolAction, CallToolObservation, env_name="notes_env")


            def main():
                import uvicorn

                uvicorn.run(app, host="0.0.0.0", port=8000)


            if __name__ == "__main__":
                main()
            """,
    }
    return write_files(parent / "notes_env", {**_surroundings("notes_env", "Notes"), **files})


def relic_env(parent: Path) -> Path:
    """An old one: ``openenv_core``, absolute imports only, a factory that reads variables, dataclass-like models."""
    files = {
        "__init__.py": "from .client import RelicClient\nfrom .models import PushAction, PushObservation\n",
        "models.py": """
            from openenv_core.env_server import Action, Observation, State


            class PushAction(Action):
                direction: str
                strength: float = 1.0


            class PushObservation(Observation):
                place: float = 0.0
                hint: str | None = None


            class PushState(State):
                place: float = 0.0
            """,
        "client.py": """
            from openenv_core.client_types import StepResult
            from openenv_core.env_client import EnvClient

            from .models import PushAction, PushObservation, PushState


            class RelicClient(EnvClient[PushAction, PushObservation, PushState]):
                def _step_payload(self, action):
                    return {"direction": action.direction, "strength": action.strength}

                def _parse_result(self, payload):
                    observation = PushObservation(**payload["observation"])
                    return StepResult(observation=observation, reward=payload["reward"], done=payload["done"])

                def _parse_state(self, payload):
                    return PushState(**payload)
            """,
        "server/relic_environment.py": """
            from models import PushAction, PushObservation, PushState
            from openenv_core.env_server import Environment


            class RelicEnvironment(Environment):
                def __init__(self, goal: float = 3.0):
                    super().__init__()
                    self.goal = goal
                    self._state = PushState()

                def reset(self):
                    self._state = PushState(episode_id="relic", step_count=0)
                    return PushObservation(hint="push")

                def step(self, action: PushAction, timeout_s=None):
                    if action.direction not in ("left", "right"):
                        raise ValueError(f"can't push {action.direction}")
                    self._state.step_count += 1
                    self._state.place += action.strength if action.direction == "right" else -action.strength
                    done = self._state.place >= self.goal
                    return PushObservation(place=self._state.place, done=done, reward=int(done))

                @property
                def state(self):
                    return self._state
            """,
        "server/app.py": """
            import os

            from models import PushAction, PushObservation
            from openenv_core.env_server import create_app
            from server.relic_environment import RelicEnvironment


            def make_environment():
                return RelicEnvironment(goal=float(os.environ.get("RELIC_GOAL", "2")))


            app = create_app(make_environment, PushAction, PushObservation, env_name="relic_env")


            def main():
                import uvicorn

                uvicorn.run(app, host="0.0.0.0", port=8000)


            if __name__ == "__main__":
                main()
            """,
    }
    return write_files(parent / "relic_env", {**_surroundings("relic_env", "Relic"), **files})


def quiz_env(parent: Path) -> Path:
    """An instance that all sessions share, a transform, enums and unions, fields that nobody declared, own routes."""
    files = {
        "__init__.py": "from .client import QuizEnv\nfrom .models import QuizAction, QuizObservation, QuizState\n",
        "models.py": """
            from __future__ import annotations

            from datetime import date
            from enum import Enum
            from typing import Any, Dict, List, Optional, Union

            from openenv.core.env_server.types import Action, Observation, State
            from pydantic import ConfigDict, Field


            class Level(str, Enum):
                EASY = "easy"
                HARD = "hard"


            class BaseQuizAction(Action):
                note: Optional[str] = None


            class QuizAction(BaseQuizAction):
                answer: Union[int, str]
                confidence: float = Field(0.5, ge=0, le=1)
                level: Level = Level.EASY


            class QuizObservation(Observation):
                model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

                question: str = ""
                asked_on: Optional[date] = None
                extras: Dict[str, Any] = Field(default_factory=dict)


            class QuizState(State):
                asked: List[str] = Field(default_factory=list)
            """,
        "client.py": """
            from openenv.core.client_types import StepResult
            from openenv.core.env_client import EnvClient

            from .models import QuizAction, QuizObservation, QuizState


            class QuizEnv(EnvClient[QuizAction, QuizObservation, QuizState]):
                def _step_payload(self, action):
                    return action.model_dump(mode="json", exclude_none=True)

                def _parse_result(self, payload):
                    observation = QuizObservation(**payload.get("observation", {}))
                    return StepResult(observation, payload.get("reward"), bool(payload.get("done", False)))

                def _parse_state(self, payload):
                    return QuizState(**payload)
            """,
        "server/quiz_env_environment.py": """
            from datetime import date
            from typing import Any, Optional

            from openenv.core.env_server.interfaces import Environment, EnvironmentMetadata, Transform

            try:
                from quiz_env.models import QuizAction, QuizObservation, QuizState
            except ImportError:
                from models import QuizAction, QuizObservation, QuizState

            print("loading the quiz")


            class Stamp(Transform):
                def __call__(self, observation):
                    observation.metadata["stamped"] = True
                    return observation


            class QuizEnvironment(Environment):
                def __init__(self, questions=None):
                    super().__init__(transform=Stamp())
                    self.questions = questions or ["2 + 2?", "8 / 2?"]
                    self._state = QuizState()

                def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs: Any):
                    self._state = QuizState(episode_id=episode_id, step_count=0)
                    told = {"given": sorted(kwargs)}
                    first = QuizObservation(
                        question=self.questions[0], asked_on=date(2025, 1, 2), extras=told, bonus=[1, 2]
                    )
                    return self._apply_transform(first)

                def step(self, action: QuizAction, timeout_s: Optional[float] = None, **kwargs: Any):
                    if action.answer == "none":
                        raise KeyError("no such answer")
                    self._state.step_count += 1
                    self._state.asked.append(self.questions[0])
                    done = self._state.step_count >= 2
                    observation = QuizObservation(question=self.questions[1], done=done, hardness=action.level.value)
                    observation.reward = 1.0 if action.answer == 4 else 0.0
                    return self._apply_transform(observation)

                @property
                def state(self) -> QuizState:
                    return self._state

                def get_metadata(self):
                    return EnvironmentMetadata(name="Quiz", description="Questions", version="9")
            """,
        "server/app.py": """
            from openenv.core.env_server import create_app

            try:
                from ..models import QuizAction, QuizObservation
                from .quiz_env_environment import QuizEnvironment
            except ImportError:
                from models import QuizAction, QuizObservation
                from server.quiz_env_environment import QuizEnvironment

            shared = QuizEnvironment(["1 + 3?", "4?"])
            app = create_app(lambda: shared, QuizAction, QuizObservation, env_name="quiz_env")


            @app.get("/scores")
            def scores():
                return {"best": 1}


            def main():
                import uvicorn

                uvicorn.run(app, host="0.0.0.0", port=8000)


            if __name__ == "__main__":
                main()
            """,
    }
    return write_files(parent / "quiz_env", {**_surroundings("quiz_env", "Quiz"), **files})


def diary_env(parent: Path) -> Path:
    """Keeps a diary over HTTP routes of its own, without a WebSocket; its client extends nothing of OpenEnv."""
    files = {
        "__init__.py": "",
        "models.py": """
            from openenv.core.env_server.types import Action, Observation

            class DiaryAction(Action):
                text: str

            class DiaryObservation(Observation):
                page: int = 0
            """,
        "client.py": """
            import json
            from dataclasses import dataclass
            from urllib.request import Request, urlopen

            try:
                from .models import DiaryAction
            except ImportError:
                from models import DiaryAction


            @dataclass
            class Chapter:
                title: str


            class DiaryEnv:
                def __init__(self, base_url: str, timeout_s: float = 60.0):
                    self.base_url = base_url
                    self.timeout_s = timeout_s

                def reset(self):
                    return self._post("/reset", {})

                def step(self, action):
                    return self._post("/step", action)

                def _post(self, path, body):
                    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
                    with urlopen(Request(self.base_url + path, data, headers), timeout=self.timeout_s) as answer:
                        return json.load(answer)
            """,
        "server/app.py": """
            from fastapi import FastAPI

            app = FastAPI()
            pages = []

            @app.get("/health")
            def health():
                return {"status": "healthy"}

            @app.post("/reset")
            def reset():
                pages.clear()
                return {"observation": {"page": 0}}

            @app.post("/step")
            def step(action: dict):
                pages.append(action["text"])
                return {"observation": {"page": len(pages)}}
            """,
    }
    return write_files(parent / "diary_env", {**_surroundings("diary_env", "Diary"), **files})


PUBLIC_FOLDERS: dict[str, Callable[[Path], Path]] = {
    "dice_env": dice_env,
    "notes_env": notes_env,
    "quiz_env": quiz_env,
    "relic_env": relic_env,
}
"""What writes each of them into a folder."""
