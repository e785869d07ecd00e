"""``openenv push``: what is checked, what is shown, what is sent, and how it ends."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, write_files
from tests.support.public_folders import dice_env, notes_env
from tests.support.services.hub_server import Answer, Fault, HubServer

import openenv as openenv_package
from openenv.auto.manifest import load_manifest

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = sorted(path.parent.name for path in ROOT.glob("envs/*/pyproject.toml"))

# The library's own way of uploading large files without Xet.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def test_a_space_is_pushed_pulled_and_served_back(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "round_trip_env")
    pushed = openenv_here("push", folder)
    assert (pushed.returncode, pushed.stderr) == (0, "")
    assert f"Pushed ada/round_trip_env: {hub.url}/spaces/ada/round_trip_env" in pushed.stdout
    said, _, came = pushed.stdout.partition("Pushed ada")
    assert "ada/round_trip_env: open to all" in said
    assert "needs no token (OPENENV_AUTH=none)" in said
    assert "without a token" in came
    pulled = openenv_here("pull", "ada/round_trip_env", tmp_path / "elsewhere" / "round_trip_env")
    assert pulled.returncode == 0, pulled.stderr
    with openenv_package.make(tmp_path / "elsewhere" / "round_trip_env").sync() as env:
        result = env.reset(seed=1)
        assert result.observation.echoed_message == "Round Trip Env environment ready!"
        action = type(env.async_client).__orig_bases__[0].__args__[0](message="hello")
        assert env.step(action).reward == pytest.approx(0.5)


def test_what_a_push_does_not_open_it_does_not_announce(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "kept_env")
    kept = openenv_here("push", folder, "--dry-run", "--private", "--secret", "OPENENV_TOKEN=x")
    assert kept.stdout.startswith("Dry run: nothing is sent.")
    proposed = openenv_here("push", folder, "--dry-run", "--repo-id", "club/kept", "--create-pr")
    assert proposed.stdout.startswith("Dry run: nothing is sent.")
    assert "needs no token" in openenv_here("push", folder, "--dry-run", "--private").stdout


def test_a_pushed_space_is_played_by_its_name(openenv: Any, openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    openenv_here("push", scaffold(tmp_path, "played_env"), "--repo-id", "club/played-env")
    ended = openenv("play", "club/played-env", "--trust-remote-code", typed="hello\nq\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "reward 0.5" in ended.stdout


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_could_be_pushed(openenv_here: Any, hub: HubServer, name: str) -> None:
    ended = openenv_here("push", ROOT / "envs" / name, "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert f"Dry run: nothing is sent. The Space YOU/{load_manifest(ROOT / 'envs' / name).name}" in ended.stdout
    assert not hub.requests


def test_a_dry_run_shows_files_and_calls_but_no_secret(
    openenv_here: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("OPENENV_TOKEN", "hush")
    folder = scaffold(tmp_path, "my_env")
    with (folder / "openenv.yaml").open("a") as manifest:
        manifest.write("variables: {LEVEL: 3, FAST: true}\n")
    settings = ("-e", "LEVEL=4", "--secret", "OPENENV_TOKEN", "--secret", "A=hush")
    ended = openenv_here("push", folder, "--dry-run", *settings)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split()[1] for line in ended.stdout.splitlines() if line.endswith("Dockerfile")] == ["Dockerfile"]
    assert '"variables": {"LEVEL": "4", "FAST": "true"}' in ended.stdout
    assert '"secrets": {"OPENENV_TOKEN": "(hidden)", "A": "(hidden)"}' in ended.stdout
    assert "hush" not in ended.stdout
    assert not hub.requests


def test_several_spaces_and_their_settings(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    options = ("-n", 2, "-H", "cpu-upgrade", "--private", "-e", "A=1=2", "--secret", "S=hush", "--no-interface")
    ended = openenv_here("push", dice_env(tmp_path), "-r", "dice", *options)
    assert ended.returncode == 0, ended.stderr
    assert set(hub.repos) == {("space", "ada/dice-1"), ("space", "ada/dice-2")}
    for name in ("ada/dice-1", "ada/dice-2"):
        space = hub.space(name)
        assert (space.private, space.hardware, space.secrets) == (True, "cpu-upgrade", {"S": "hush"})
        assert space.variables == {"A": "1=2", "OPENENV_AUTH": "none"}
        assert b"ENV ENABLE_WEB_INTERFACE=false" in space.files["Dockerfile"]
        assert b"hush" not in b"".join(space.files.values())
    assert "hush" not in ended.stdout


def test_the_openenv_that_runs_here_goes_along_until_it_is_released(
    openenv_here: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scaffold(tmp_path, "my_env")
    openenv_here("push", folder)
    wheels = [path for path in hub.space("ada/my_env").files if path.startswith("wheels/")]
    assert len(wheels) == 1
    assert wheels[0].endswith(".whl")
    monkeypatch.setattr("openenv.cli.commands.push.is_from_index", lambda: True)
    openenv_here("push", folder, "-r", "released")
    assert not [path for path in hub.space("ada/released").files if path.startswith("wheels/")]


def test_a_proposal_for_somebody(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    hub.add("bob/dice", {})
    ended = openenv_here("push", dice_env(tmp_path), "-r", "bob/dice", "--create-pr")
    assert (ended.returncode, ended.stdout) == (0, f"Proposed to bob/dice: {hub.url}/spaces/bob/dice/discussions/1\n")


def test_what_is_left_out_and_what_is_deleted(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/dice_env", {"old.py": b"", "keep.py": b""})
    folder = write_files(dice_env(tmp_path), {"data/big.txt": "x", "notes.md": "x"})
    (tmp_path / "patterns").write_text("data/\nnotes.*\n")
    ended = openenv_here("push", folder, "--exclude", tmp_path / "patterns", "--delete", "old*", "-b", "mine:1")
    assert ended.returncode == 0, ended.stderr
    files = hub.space("ada/dice_env").files
    assert "keep.py" in files
    assert not {"data/big.txt", "notes.md", "old.py"} & set(files)
    assert files["Dockerfile"].startswith(b"FROM mine:1\n")


def test_nobody_is_logged_in(
    openenv_here: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    ended = openenv_here("push", dice_env(tmp_path))
    assert ended.returncode == 1
    assert (
        "Error: This needs an account on the Hub, and no account is logged in. Log in with `hf auth login`"
        in ended.stderr
    )
    assert not hub.repos


def test_what_the_hub_refuses_is_told(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    hub.faults.append(Fault("GET /api/whoami-v2", Answer(401, {"error": "Invalid token"})))
    ended = openenv_here("push", dice_env(tmp_path))
    assert ended.returncode == 1
    assert "Error: Could not look up your account: the Hub does not know your token" in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--interface", "--no-interface"],
        ["--registry", "ghcr.io/me", "--private"],
        ["--registry", "ghcr.io/me", "-r", "x/y"],
        ["--registry", "ghcr.io/me", "--secret", "A=1"],
        ["--create-pr", "-e", "A=1"],
        ["--create-pr", "-H", "t4-small"],
    ],
)
def test_options_that_do_not_go_together(openenv_here: Any, tmp_path: Path, options: list[str]) -> None:
    ended = openenv_here("push", dice_env(tmp_path), *options)
    assert ended.returncode == 1
    assert "does not go with" in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-e", "NOVALUE"],
        ["-e", "A B=1"],
        ["--secret", "NO_SUCH_VARIABLE"],
        ["-r", "a/b/c"],
        ["-r", "--bad"],
        ["-n", "0"],
        ["--exclude", "no-such-file"],
    ],
)
def test_options_that_make_no_sense(openenv_here: Any, tmp_path: Path, options: list[str]) -> None:
    assert openenv_here("push", dice_env(tmp_path), *options).returncode == 2


def test_a_value_that_is_no_secrets_is_not_shown(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("push", dice_env(tmp_path), "--secret", "MY-KEY=hush")
    assert ended.returncode == 2
    assert "MY-KEY" in ended.stderr
    assert "hush" not in ended.stderr


def test_what_is_no_environments_folder(openenv_here: Any, tmp_path: Path) -> None:
    assert openenv_here("push", tmp_path / "nowhere").returncode == 2
    none = openenv_here("push", tmp_path)
    assert none.returncode == 1
    assert "holds no openenv.yaml" in none.stderr


@pytest.mark.parametrize("path", ["client.py", "README.md", "pyproject.toml", "server/Dockerfile", "server/app.py"])
def test_a_file_that_every_space_has(openenv_here: Any, tmp_path: Path, path: str) -> None:
    folder = dice_env(tmp_path)
    (folder / path).unlink()
    ended = openenv_here("push", folder, "--dry-run", "--skip-validation")
    assert ended.returncode == 2
    assert path in ended.stderr


def test_an_environment_of_tools_needs_no_client(openenv_here: Any, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "client.py").unlink()
    assert openenv_here("push", folder, "--dry-run", "--skip-validation").returncode == 2
    notes = openenv_here("push", notes_env(tmp_path), "--dry-run")
    assert notes.returncode == 0, notes.stderr
    assert "Warning: notes_env has no folder outputs/" in notes.stderr


def test_a_part_of_a_package_is_pushed_with_it(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("push", scaffold(scaffold(tmp_path, "games_env"), "chess"), "--dry-run")
    assert ended.returncode == 2
    assert "push that folder" in ended.stderr


def test_what_fails_the_checks_is_not_pushed(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    folder = write_files(dice_env(tmp_path), {"models.py": "def ("})
    ended = openenv_here("push", folder)
    assert ended.returncode == 1
    assert "models.py:1" in ended.stderr
    assert "Nothing was pushed" in ended.stderr
    assert not hub.requests
    assert openenv_here("push", folder, "--skip-validation").returncode == 0


def test_what_looks_like_a_token_is_never_pushed(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    folder = write_files(dice_env(tmp_path), {"notes/key.txt": f"hf_{'a' * 34}"})
    ended = openenv_here("push", folder, "--skip-validation")
    assert ended.returncode == 1
    assert "notes/key.txt:1 looks like a Hugging Face token" in ended.stderr
    assert "a" * 34 not in ended.stderr
    assert not hub.requests
    (tmp_path / "patterns").write_text("key.txt")
    assert openenv_here("push", folder, "--exclude", tmp_path / "patterns").returncode == 0


def test_a_dry_run_for_a_registry(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("push", dice_env(tmp_path), "--registry", "ghcr.io/me", "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert "docker push ghcr.io/me/dice-env:latest" in ended.stdout
