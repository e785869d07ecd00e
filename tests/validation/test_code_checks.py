"""Checks of the code: a sound folder passes, and each fault is found without importing anything."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.environment_folders import public_environment, scaffold, with_manifest_keys, write_files
from tests.support.outcomes import Outcome, outcomes

from openenv.validation import read_source
from openenv.validation.code_checks import CODE_CHECKS
from openenv.validation.findings import run_check

ENVIRONMENT = "server/my_env_environment.py"


def result(folder: Path, check_id: str) -> Outcome:
    check = next(check for check in CODE_CHECKS if check.id == f"static.{check_id}")
    return outcomes(run_check(check, read_source(folder)))[check.id]


def changed(parent: Path, file: str, old: str, new: str) -> Path:
    """Make a scaffold with one text replaced."""
    folder = scaffold(parent, "my_env")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    return folder


@pytest.mark.parametrize("check_id", [check.id.removeprefix("static.") for check in CODE_CHECKS])
def test_a_scaffold_passes(tmp_path: Path, check_id: str) -> None:
    assert result(scaffold(tmp_path, "my_env"), check_id).status == "pass"


@pytest.mark.parametrize("check_id", [check.id.removeprefix("static.") for check in CODE_CHECKS])
def test_a_public_environment_does_not_fail(tmp_path: Path, check_id: str) -> None:
    assert result(public_environment(tmp_path), check_id).status != "fail"


FAULTS = [
    ("syntax", "client.py", '"""The client', '("""The client', "fail", "client.py:1: '(' was never closed"),
    ("classes", "openenv.yaml", "client:MyEnv", "client:YourEnv", "fail", "`client: client:YourEnv` names something"),
    ("classes", "openenv.yaml", "player:make_player", "players:make_player", "fail", "`player: players:make_player`"),
    ("classes", "openenv.yaml", "server.app:app", "server.app:application", "fail", "`app: server.app:application`"),
    ("classes", "openenv.yaml", "action: MyAction", "action: TheirAction", "fail", "`action: TheirAction` names"),
    ("classes", "openenv.yaml", "action: MyAction", "action: player:make_player", "fail", "is no class"),
    ("classes", "models.py", "class MyAction(Action)", "class MyAction", "fail", "MyAction does not extend Action"),
    ("classes", ENVIRONMENT, "(Environment[", "(dict[", "fail", "MyEnvironment does not extend Environment"),
    ("models", "models.py", 'Field(description="The text to echo")', "'x'", "warn", "MyAction.message has no desc"),
    ("environment", ENVIRONMENT, "def reset(", "def restart(", "fail", "MyEnvironment has no reset"),
    ("environment", ENVIRONMENT, "def step(", "def walk(", "fail", "MyEnvironment has no step"),
    ("environment", ENVIRONMENT, "def state(", "def where(", "fail", "MyEnvironment has no state"),
    ("environment", ENVIRONMENT, "@property", "# none", "warn", "state is no property"),
    ("environment", ENVIRONMENT, "seed: int | None = None, ", "", "warn", "reset takes no seed"),
    ("environment", ENVIRONMENT, "seed: int | None = None", "seed: int", "fail", "reset needs seed"),
    ("environment", ENVIRONMENT, "self, seed: int | None = None", "self, *, level, seed=None", "fail", "needs level"),
    ("environment", ENVIRONMENT, "self, action: MyAction", "self", "fail", "the server passes the action"),
    ("environment", ENVIRONMENT, "self, action: MyAction", "self, action, extra", "fail", "step takes (action, extra)"),
    ("concurrency", ENVIRONMENT, "SUPPORTS_CONCURRENT", "ALLOWS_CONCURRENT", "warn", "does not set SUPPORTS_CONC"),
    ("server", "server/app.py", "def main", "def run", "warn", "no main()"),
    ("server", "server/app.py", "env_name=", "max_concurrent_envs=8, env_name=", "warn", "sets max_concurrent_envs"),
]


@pytest.mark.parametrize(
    ("check_id", "file", "old", "new", "status", "evidence"), FAULTS, ids=[fault[5] for fault in FAULTS]
)
def test_each_fault_is_found(
    tmp_path: Path, check_id: str, file: str, old: str, new: str, status: str, evidence: str
) -> None:
    found = result(changed(tmp_path, file, old, new), check_id)
    assert any(evidence in text for text in found.evidence), found.evidence
    assert found.status == status
    assert found.remediation != []


def test_more_sessions_than_the_class_supports_fail(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "SESSIONS = True", "SESSIONS = False")
    assert result(folder, "concurrency").status == "pass"
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("env_name=", "max_concurrent_envs=64, env_name="))
    found = result(folder, "concurrency")
    assert (found.status, "is for 64 sessions" in found.evidence[0]) == ("fail", True)


def test_methods_and_flags_may_be_inherited(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "class MyEnvironment", "class BaseEnvironment")
    with (folder / ENVIRONMENT).open("a") as file:
        file.write("\n\nclass MyEnvironment(BaseEnvironment):\n    pass\n")
    for check_id in ("classes", "environment", "concurrency"):
        assert result(folder, check_id).status == "pass"


def test_async_forms_count(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "def reset(", "async def reset_async(")
    assert result(folder, "environment").status == "pass"


def test_bases_of_the_adapters_are_known(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "(Environment[", "(WordGame[")
    text = (folder / ENVIRONMENT).read_text().replace("def step(", "def walk(").replace("def state(", "def where(")
    (folder / ENVIRONMENT).write_text(f"from openenv.adapters.openspiel import WordGame\n{text}")
    assert {
        check_id: outcome.evidence
        for check in CODE_CHECKS
        for check_id, outcome in outcomes(run_check(check, read_source(folder))).items()
        if outcome.status != "pass"
    } == {}


@pytest.mark.parametrize("kept", ["MyAction", "Literal[1] | MyAction"])
def test_models_that_the_manifest_does_not_name_are_those_of_the_environment(tmp_path: Path, kept: str) -> None:
    folder = changed(tmp_path, "models.py", 'Field(description="The text to echo")', "'x'")
    with_manifest_keys(folder, action=None, observation=None, environment=None, client=None)
    environment = folder / ENVIRONMENT
    text = environment.read_text().replace("[MyAction,", f"[{kept},")
    environment.write_text(text.replace("import State\n", "import State\nfrom typing import Literal\n"))
    assert [each for each in result(folder, "models").evidence if "MyAction.message has no desc" in each]
    assert result(folder, "classes").status == "pass"


def test_a_base_of_another_package_is_doubted_not_refused(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "(Environment[", "(Their[")
    file = folder / ENVIRONMENT
    file.write_text(file.read_text().replace("import Environment\n", "import Environment\nfrom theirs import Their\n"))
    found = result(folder, "classes")
    assert (found.status, "can't see whether MyEnvironment" in found.evidence[0]) == ("warn", True)


def test_tool_style_environments_need_no_step(tmp_path: Path) -> None:
    folder = write_files(
        scaffold(tmp_path, "my_env"),
        {
            ENVIRONMENT: """
                from openenv.core.env_server.mcp_environment import MCPEnvironment

                class MyEnvironment(MCPEnvironment):
                    SUPPORTS_CONCURRENT_SESSIONS = True
                    def reset(self, seed=None, **kwargs): ...
                    def _step_impl(self, action, timeout_s=None, **kwargs): ...
                    @property
                    def state(self): ...
                """
        },
    )
    for check_id in ("classes", "environment"):
        assert result(folder, check_id).status == "pass"


def test_a_made_client_is_accepted(tmp_path: Path) -> None:
    text = """
        from openenv.core.typed_client import client_for
        from my_env.server.my_env_environment import MyEnvironment

        MyEnv = client_for(MyEnvironment)
        """
    assert result(write_files(scaffold(tmp_path, "my_env"), {"client.py": text}), "classes").status == "pass"


def test_docstrings_describe_fields_too(tmp_path: Path) -> None:
    text = '''
        from typing import ClassVar
        from pydantic import ConfigDict
        from openenv.core.env_server.types import Action, Observation

        class MyAction(Action):
            """Do it.

            Attributes:
                message: What to say.
            """

            model_config = ConfigDict()
            LIMIT: ClassVar[int] = 3
            message: str
            _private: int = 0

        class MyObservation(Observation):
            """See it."""
        '''
    assert result(write_files(scaffold(tmp_path, "my_env"), {"models.py": text}), "models").status == "pass"


def test_a_class_from_a_sibling_module_without_a_package_is_found(tmp_path: Path) -> None:
    """Authors fall back on it, as their containers start the server in its folder."""
    folder = write_files(
        public_environment(tmp_path),
        {
            "openenv.yaml": "name: tally_env\napp: server.app:app\nenvironment: server.app:Tally",
            "server/base.py": """
                try:
                    from openenv.core.env_server.interfaces import Environment
                    from ..models import AddAction
                except ImportError:
                    from models import AddAction
                    from openenv.core.env_server.interfaces import Environment

                class Shown(Environment):
                    @property
                    def state(self):
                        return None
                """,
            "server/tally_environment.py": """
                from base import Shown
                from models import AddAction, TallyObservation

                class Tally(Shown):
                    def reset(self, seed: int | None = None, episode_id: str | None = None):
                        return TallyObservation()

                    def step(self, action: AddAction):
                        return TallyObservation(total=action.amount)
                """,
            "server/app.py": """
                from models import AddAction, TallyObservation
                from openenv.core.env_server.http_server import create_app
                from tally_environment import Tally

                app = create_app(Tally, AddAction, TallyObservation)
                """,
        },
    )
    found = result(folder, "environment")
    assert (found.status, found.evidence) == ("pass", [])
    assert result(folder, "classes").status != "fail"


def test_without_any_environment(tmp_path: Path) -> None:
    folder = write_files(public_environment(tmp_path), {"server/tally_environment.py": "", "server/app.py": ""})
    assert result(folder, "environment").evidence == ["No class extends Environment."]


_SNIPPETS = st.sampled_from(
    ["class MyEnvironment(", "Environment):", "def step", "(self, *, a, b=1)", ":", "\n    ", "\n", "pass", "from ."]
)


@settings(max_examples=60)
@given(code=st.lists(_SNIPPETS, max_size=12).map(" ".join) | st.text(max_size=60))
def test_no_code_breaks_a_check(code: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    manifest = "name: my_env\nenvironment: models:MyEnvironment\naction: MyEnvironment\nclient: models:x"
    write_files(folder, {"openenv.yaml": manifest})
    (folder / "models.py").write_text(code, encoding="utf-8", errors="ignore")
    for check in CODE_CHECKS:
        assert outcomes(run_check(check, read_source(folder))).keys() == {check.id}


TOOLS = """
from openenv import Environment, Observation, tool


class MyEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None):
        return Observation()

    @tool(terminal=True)
    def submit(self) -> str:
        return "done"
"""


@pytest.mark.parametrize(("old", "new", "status"), [("", "", "pass"), ("@tool(terminal=True)", "", "fail")])
def test_a_class_with_tools_needs_neither_step_nor_state(tmp_path: Path, old: str, new: str, status: str) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {ENVIRONMENT: TOOLS.replace(old, new) if old else TOOLS})
    assert result(folder, "environment").status == status


def test_a_reset_may_need_what_its_tasks_have(tmp_path: Path) -> None:
    folder = changed(tmp_path, ENVIRONMENT, "self, seed: int | None = None", "self, *, level")
    file = folder / ENVIRONMENT
    text = file.read_text()
    start = text.index("    SUPPORTS_CONCURRENT")
    file.write_text(f'{text[:start]}    tasks = TaskSet("tasks.csv")\n{text[start:]}')
    assert result(folder, "environment").evidence == []
