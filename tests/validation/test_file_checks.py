"""Checks of the files around the code: a sound folder passes, and each fault is found."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.dataset_folders import environment_with_rows
from tests.support.environment_folders import scaffold, write_files
from tests.support.manifests import OTHER_SHAPES
from tests.support.outcomes import Outcome, outcomes

from openenv.validation import read_source
from openenv.validation.file_checks import FILE_CHECKS, HOME_PATH
from openenv.validation.findings import run_check

Change = Callable[[Path], object]


def result(folder: Path, check_id: str) -> Outcome:
    check = next(check for check in FILE_CHECKS if check.id == f"static.{check_id}")
    return outcomes(run_check(check, read_source(folder)))[check.id]


def replaced(file: str, old: str, new: str) -> Change:
    """Return a change of a file."""

    def change(folder: Path) -> None:
        path = folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def removed(file: str) -> Change:
    return lambda folder: (folder / file).unlink()


def with_file(file: str, text: str) -> Change:
    return lambda folder: write_files(folder, {file: text})


@pytest.mark.parametrize("check_id", [check.id.removeprefix("static.") for check in FILE_CHECKS])
def test_a_scaffold_passes(tmp_path: Path, check_id: str) -> None:
    assert result(scaffold(tmp_path, "my_env"), check_id).status == "pass"


def test_a_task_set_that_is_there_passes(tmp_path: Path) -> None:
    assert result(environment_with_rows(tmp_path, {"train": [{"seed": 1}]}), "manifest").status == "pass"


SHORT_README = "---\ntitle: x\nsdk: docker\napp_port: 8000\n---\nTODO\n"

FAULTS: list[tuple[str, Change, str, str]] = [
    ("manifest", replaced("openenv.yaml", "port: 8000", "port: 0"), "fail", "`port` is 0"),
    ("manifest", replaced("openenv.yaml", 'version: "0.1.0"', "x: 1"), "warn", "`version` is missing"),
    (
        "manifest",
        replaced("openenv.yaml", "port: 8000", "port: 8000\ntask_sets: {default: ../words}"),
        "fail",
        "`task_sets`: default: Expected an environment of a dataset, as in hf://datasets/ORG/REPO/ENV@REVISION",
    ),
    (
        "manifest",
        replaced("openenv.yaml", "port: 8000", 'port: 8000\ntask_sets: {default: "hf://datasets/words"}'),
        "fail",
        "`task_sets`: default: Expected an environment of a dataset",
    ),
    ("files", removed("client.py"), "fail", "client.py is missing"),
    ("readme", removed("README.md"), "fail", "README.md is missing"),
    ("packaging", removed("pyproject.toml"), "fail", "pyproject.toml is missing"),
    ("image", removed("server/Dockerfile"), "fail", "neither server/Dockerfile nor Dockerfile"),
    ("readme", with_file("README.md", "# My env\n"), "warn", "no front matter"),
    ("readme", replaced("README.md", "sdk: docker\n", ""), "warn", "lacks sdk"),
    (
        "readme",
        replaced("README.md", "app_port: 8000", "app_port: 80"),
        "fail",
        "app_port 80, openenv.yaml has port 8000",
    ),
    ("readme", replaced("README.md", "title: ", "title: [: "), "warn", "lacks title, sdk, app_port"),
    (
        "readme",
        with_file("README.md", "---\ntitle: x\nsdk: docker\napp_port: 8000\n---\nTODO\n"),
        "warn",
        "hardly any text",
    ),
    ("packaging", replaced("pyproject.toml", 'name = "openenv-my_env"', ""), "fail", "no project.name"),
    (
        "packaging",
        replaced("pyproject.toml", "openenv-core>=", "openenvoy>="),
        "fail",
        "does not depend on openenv-core",
    ),
    ("packaging", replaced("pyproject.toml", "openenv.environments", "others"), "warn", "No entry point in the group"),
    ("packaging", replaced("pyproject.toml", 'my = "my_env"', 'my = "your_env"'), "warn", "names my_env"),
    ("packaging", replaced("pyproject.toml", "server = ", "serve = "), "warn", "no script called server"),
    ("image", replaced("server/Dockerfile", "FROM ", "# "), "fail", "no FROM"),
    ("image", with_file("server/Dockerfile", "FROM x\nCMD serve 8000\n"), "warn", "no HEALTHCHECK"),
    ("image", with_file("server/Dockerfile", "FROM x\nHEALTHCHECK CMD true\n"), "fail", "no CMD"),
    ("image", replaced("server/Dockerfile", "8000", "80"), "warn", "does not mention port 8000"),
    ("secrets", with_file("a.py", "x = 'hf_" + "a1B2" * 9 + "'"), "fail", "a.py:1 looks like a Hugging Face token"),
    ("secrets", with_file("notes/b.md", "one\ntwo\nsk-" + "ant-abcdefghijklmnopqrstuvwxyz"), "fail", "notes/b.md:3"),
    ("secrets", with_file(".env", "KEY=AKIA" + "ABCDEFGHIJKLMNOP"), "fail", ".env:1 looks like an AWS key"),
    ("secrets", with_file("k.pem", "-----BEGIN RSA " + "PRIVATE KEY-----"), "fail", "looks like a private key"),
    ("secrets", with_file("t.yaml", "t: ghp_" + "A1b2C3d4" * 5), "fail", "looks like a GitHub token"),
    ("paths", with_file("server/data.py", "DATA = '/home/ann/data'"), "warn", "server/data.py:1 names /home/ann"),
    ("paths", with_file("x.toml", 'dir = "C:\\\\Users\\\\ann\\\\x"'), "warn", "x.toml:1 names C:"),
]


@pytest.mark.parametrize(("check_id", "change", "status", "evidence"), FAULTS, ids=[fault[3] for fault in FAULTS])
def test_each_fault_is_found(tmp_path: Path, check_id: str, change: Change, status: str, evidence: str) -> None:
    folder = scaffold(tmp_path, "my_env")
    change(folder)
    found = result(folder, check_id)
    assert (found.status, len(found.evidence) > 0, len(found.remediation) > 0) == (status, True, True)
    assert any(evidence in text for text in found.evidence), found.evidence


@pytest.mark.parametrize(("key", "text"), OTHER_SHAPES)
def test_what_other_tools_keep_under_a_key_is_a_warning(tmp_path: Path, key: str, text: str) -> None:
    folder = scaffold(tmp_path, "my_env")
    lines = (line for line in (folder / "openenv.yaml").read_text().splitlines() if not line.startswith(f"{key}:"))
    found = result(write_files(folder, {"openenv.yaml": "\n".join((*lines, text))}), "manifest")
    assert found.status == "warn"
    assert [each for each in found.evidence if f"`{key}` has a value of another shape" in each]


def test_a_secret_is_not_repeated_in_the_report(tmp_path: Path) -> None:
    secret = "hf_" + "Zz9" * 12
    folder = write_files(scaffold(tmp_path, "my_env"), {"a.py": f"TOKEN = '{secret}'"})
    assert secret not in repr(result(folder, "secrets"))


@pytest.mark.parametrize("text", ["hf_hub_download", "sk-learn", "task-" + "a" * 30, "AKIA", "disk-abc"])
def test_harmless_text_is_no_secret(tmp_path: Path, text: str) -> None:
    assert result(write_files(scaffold(tmp_path, "my_env"), {"a.py": text}), "secrets").status == "pass"


@pytest.mark.parametrize(
    "text", ["/homepage/x", "x/home/ann/", "https://example.org/home/x", "/rooted", "'/app/env'", "'/home/user/x'"]
)
def test_harmless_text_is_no_path_of_one_machine(text: str) -> None:
    assert HOME_PATH.search(text) is None


@pytest.mark.parametrize(
    "text", ["'/home/ann/x'", "'/home/user.name/x'", "/Users/ann/x", "open('/root/x')", 'r"C:\\Users\\ann\\x"']
)
def test_paths_of_one_machine(text: str) -> None:
    assert HOME_PATH.search(text) is not None


def test_a_subpackage_is_published_with_the_package_around_it(tmp_path: Path) -> None:
    top = scaffold(tmp_path, "games_env")
    folder = scaffold(top, "chess")
    for name in ("pyproject.toml", "server/Dockerfile"):
        (folder / name).unlink()
    write_files(folder, {"README.md": "# Chess"})
    for check_id in ("files", "readme", "image"):
        assert result(folder, check_id).status == "pass"
    found = result(folder, "packaging")
    assert any("names games_env.chess" in text for text in found.evidence)
    replaced("pyproject.toml", 'games = "games_env"', 'chess = "games_env.chess"')(top)
    assert result(folder, "packaging").status == "pass"


TOOLS = """
from openenv import Environment, Observation, tool


class MyEnvironment(Environment):
    def reset(self, seed=None):
        return Observation()

    @tool
    def submit(self) -> str:
        return "done"
"""


@pytest.mark.parametrize(
    ("code", "status"), [(TOOLS, "pass"), (TOOLS + "\n    def step(self, action):\n        return action\n", "fail")]
)
def test_tools_need_no_client(tmp_path: Path, code: str, status: str) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"server/my_env_environment.py": code})
    (folder / "client.py").unlink()
    assert result(folder, "files").status == status


@given(text=st.text(max_size=200))
def test_no_readme_breaks_the_check(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    write_files(folder, {"openenv.yaml": "name: my_env"})
    (folder / "README.md").write_text(f"---\n{text}\n---\n", encoding="utf-8", errors="ignore")
    assert result(folder, "readme").status in ("pass", "warn", "fail")
