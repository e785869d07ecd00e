"""Folders of environments, as authors make them."""

import re
from pathlib import Path
from string import Template
from textwrap import dedent

import yaml

from openenv.auto.names import class_prefix
from openenv.cli.importers.kinds import EnvironmentKind

_ECHO = Path(__file__).with_name("echo_scaffold")


# What a manifest may say, and need not.
_CLASSES = Template("""\
description: Says back each message.
action: ${prefix}Action
observation: ${prefix}Observation
environment: server.${name}_environment:${prefix}Environment
client: client:${prefix}Env
""")


def fresh_scaffold(parent: Path, name: str) -> Path:
    """Make the folder that ``openenv init`` makes."""
    folder = parent / name
    EnvironmentKind().write(name, folder)
    return folder


def scaffold(parent: Path, name: str) -> Path:
    """Make the folder that ``openenv init`` makes, with an environment that says back each message."""
    folder = fresh_scaffold(parent, name)
    values = {"name": name, "prefix": class_prefix(name), "title": name.replace("_", " ").strip().title()}
    for path in ("models.py", "player.py", "server/__name___environment.py"):
        text = Template((_ECHO / f"{path}.tmpl").read_text()).substitute(values)
        (folder / path.replace("__name__", name)).write_text(text)
    for path, said in (("README.md", "Say back each message.\n\n- **End**: never"), ("openenv.yaml", "Say it back.")):
        text = (folder / path).read_text()
        (folder / path).write_text(re.sub("Walk to a goal[^.]*[.]( Replace this[^.]*[.])?", said, text))
    with (folder / "openenv.yaml").open("a") as manifest:
        manifest.write(_CLASSES.substitute(values))
    return folder


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their paths in a folder; their text may be indented."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return folder


def with_manifest_keys(folder: Path, **keys: str | None) -> Path:
    """Set some keys of a folder's manifest, or delete those that are ``None``."""
    file = folder / "openenv.yaml"
    manifest = {**yaml.safe_load(file.read_text()), **keys}
    file.write_text(yaml.safe_dump({key: value for key, value in manifest.items() if value is not None}))
    return folder


def public_environment(parent: Path, folder_name: str = "tally_env") -> Path:
    """Make an environment as authors write it for the public OpenEnv: no keys of ours, imports that fall back."""
    return write_files(
        parent / folder_name,
        {
            "openenv.yaml": f"""
                spec_version: 1
                name: {folder_name}
                type: space
                runtime: fastapi
                app: server.app:app
                port: 8000
                """,
            "__init__.py": "from .client import TallyGameEnv\nfrom .models import AddAction, TallyObservation\n",
            "models.py": """
                from openenv.core.env_server.types import Action, Observation

                class AddAction(Action):
                    amount: int

                class TallyObservation(Observation):
                    total: int = 0
                """,
            "client.py": """
                from openenv.core import EnvClient
                from openenv.core.client_types import StepResult
                from openenv.core.env_server.types import State

                from .models import AddAction, TallyObservation

                class TallyGameEnv(EnvClient[AddAction, TallyObservation, State]):
                    def _step_payload(self, action):
                        return {"amount": action.amount}

                    def _parse_result(self, payload):
                        observation = TallyObservation(**payload["observation"])
                        return StepResult(observation, payload.get("reward"), payload.get("done", False))

                    def _parse_state(self, payload):
                        return State(**payload)
                """,
            "server/__init__.py": "",
            "server/tally_environment.py": """
                from openenv.core.env_server.interfaces import Environment
                from openenv.core.env_server.types import State

                try:
                    from ..models import AddAction, TallyObservation
                except ImportError:
                    from models import AddAction, TallyObservation

                class TallyEnvironment(Environment):
                    def __init__(self):
                        self._state = State(episode_id="one")
                        self._total = 0

                    def reset(self, seed=None, episode_id=None, **kwargs):
                        self._total = 0
                        return TallyObservation(total=0)

                    def step(self, action, timeout_s=None, **kwargs):
                        self._total += action.amount
                        return TallyObservation(total=self._total, reward=float(action.amount))

                    @property
                    def state(self):
                        return self._state
                """,
            "server/app.py": """
                from openenv.core.env_server.http_server import create_app

                try:
                    from ..models import AddAction, TallyObservation
                    from .tally_environment import TallyEnvironment
                except ImportError:
                    from models import AddAction, TallyObservation
                    from server.tally_environment import TallyEnvironment

                app = create_app(TallyEnvironment, AddAction, TallyObservation, env_name="tally")
                """,
        },
    )
