"""``openenv traces``: on episodes of an environment of the catalog."""

import json
import os
import pty
import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pytest
from PIL import Image
from tests.support.services.postgres import running_postgres
from tests.support.stored_episodes import entries, episode

from openenv import find_environment, make, traces
from openenv.cli.trace_filters import EndingName
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.traces.sqlite import connected


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two episodes of catch."""
    path = tmp_path_factory.mktemp("traces") / "traces.db"
    catch = find_environment("catch")
    with make("catch", traces=path).sync() as client:
        for seed in (1, 2):
            player = catch.make_player(seed)
            assert player is not None
            result = client.reset(seed=seed)
            while not result.done:
                result = client.step(player(result.observation))
    return str(path)


def on_terminal(*arguments: str) -> str:
    """Return what a command writes on a terminal of 60 columns with all colours."""
    ours, theirs = pty.openpty()
    colours = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "60", "LINES": "24"}
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | colours
    command = [sys.executable, "-m", "openenv.cli", *arguments]
    written = bytearray()
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
            os.close(theirs)
            while piece := _read(ours):
                written += piece
    finally:
        os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the last writer has ended
        return b""


def test_list_shows_episodes_and_filters_them(openenv_here: Any, file: str) -> None:
    lines = openenv_here("traces", "list", file).stdout.splitlines()
    assert ["seed=2" in line for line in lines] == [True, False]
    assert openenv_here("traces", "list", file, "--limit", "1").stdout.splitlines() == lines[:1]
    assert openenv_here("traces", "list", file, "--seed", "1", "--since", "1h").stdout.splitlines() == lines[1:]
    assert openenv_here("traces", "list", file, "--env", "nothing").stdout == ""
    assert openenv_here("traces", "list", file, "--no-evaluations").stdout.splitlines() == lines
    assert openenv_here("traces", "list", file, "--evaluations").stdout == ""
    fields = json.loads(openenv_here("traces", "list", file, "--json").stdout.splitlines()[0])
    assert (fields["id"], fields["environment"], fields["ending"]) == ("1-2", "catch", "done")


def test_a_folder_is_the_file_of_traces_in_it(openenv_here: Any, file: str, tmp_path: Path) -> None:
    assert openenv_here("traces", "list", Path(file).parent).stdout == openenv_here("traces", "list", file).stdout
    ended = openenv_here("traces", "list", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith("found none.\n")


def test_every_ending_can_be_chosen(openenv_here: Any) -> None:
    assert set(get_args(EndingName)) >= {"done", "truncated", "reset", "running", "interrupted", "imported", *Ending}
    shown = openenv_here("traces", "list", "--help").stdout
    assert all(name in shown for name in get_args(EndingName))


def test_show_has_every_request(openenv_here: Any, file: str) -> None:
    shown = openenv_here("traces", "show", file, "1-1").stdout
    assert "seed: 1" in shown
    assert '0 reset {"seed": 1}' in shown
    first, *entries = map(json.loads, openenv_here("traces", "show", file, "1-1", "--json").stdout.splitlines())
    assert first["steps"] == len(entries) - 1
    assert entries[-1]["answer"]["done"] is True


def test_show_writes_pictures_to_a_folder(openenv_here: Any, tmp_path: Path) -> None:
    picture = b"GIF89a" + bytes(40)
    screen = {"screen": b64encode(picture).decode()}
    with traces.open(tmp_path / "traces.db", create=True) as file:
        name = file.add(episode(), entries(2, screen))
    command = ("traces", "show", str(tmp_path / "traces.db"), name, "--pictures", str(tmp_path / "pictures"))
    (kept,) = {line.split(": ")[1] for line in openenv_here(*command).stdout.splitlines() if ".screen:" in line}
    assert Path(kept).read_bytes() == picture
    assert openenv_here(*command, "--json").returncode == 2


def test_show_draws_pictures_on_a_terminal_with_colours_alone(openenv_here: Any, tmp_path: Path) -> None:
    picture = BytesIO()
    Image.new("RGB", (200, 100), (1, 2, 3)).save(picture, "PNG")
    screen = {"screen": b64encode(picture.getvalue()).decode()}
    with traces.open(tmp_path / "traces.db", create=True) as file:
        name = file.add(episode(), entries(2, screen))
    command = ("traces", "show", str(tmp_path / "traces.db"), name)
    assert "\x1b[" not in openenv_here(*command).stdout
    shown = on_terminal(*command)
    lines = [line for line in shown.splitlines() if "38;2;1;2;3" in line]
    assert len(lines) == 2 * 15  # of two observations, made as wide as the terminal
    assert all(line.count("\N{LOWER HALF BLOCK}") == 60 for line in lines)


def test_replay_and_diff_say_what_is_the_same(openenv_here: Any, file: str) -> None:
    replayed = openenv_here("traces", "replay", file, "1-1")
    assert (replayed.returncode, replayed.stdout.splitlines()[-1]) == (0, "10 of 10 are the same.")
    assert openenv_here("traces", "diff", file, "1-1", "1-1").returncode == 0
    compared = openenv_here("traces", "diff", file, "1-1", "1-2")
    assert compared.returncode == 1
    assert "DIFFERS: request, observation" in compared.stdout


def test_replay_and_show_say_what_is_left_out(openenv_here: Any, file: str, tmp_path: Path) -> None:
    lines = {}
    for path in ("observation.ball", "action.move"):
        with traces.open(file) as whole, traces.open(tmp_path / path, create=True, leave_out=[path]) as less:
            less.add(whole.episode("1-1"), whole.entries("1-1"))
        shown = openenv_here("traces", "show", str(tmp_path / path), "1-1").stdout
        assert f"(left out: {path})" in shown
        lines[path] = openenv_here("traces", "replay", str(tmp_path / path), "1-1").stdout.splitlines()
    assert lines["observation.ball"][0] == "   0 reset same  (left out: observation.ball)"
    assert lines["observation.ball"][-1] == "10 of 10 are the same."
    assert lines["action.move"][-1] == "Fields of requests are not on record: a replay may differ for their lack alone."


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["show", "FILE", "9-9"], 1, "Expected the id of an episode"),
        (["show", "FILE", "x"], 1, "Expected the id of an episode"),
        (["replay", "FILE", "1-1", "--env", "no-such"], 2, "No environment is called 'no-such'"),
        (["list", "FILE", "--since", "soon"], 1, "Expected --since to be a time"),
        (["list", "FILE", "--ending", "won"], 2, "Invalid value for '--ending'"),
        (["list", "no-such-file"], 1, "Expected a file of traces at no-such-file"),
        (["prune", "FILE"], 2, "--older-than or --max-size-mb"),
        (["export", "FILE", "FILE", "--to", "jsonl"], 1, "exists. Give another path, or remove it"),
        (["export", "FILE", "new", "--to", "jsonl", "--env", "none"], 1, "that pass the filter, found none"),
        (["import", "new.db", "no-such.json"], 1, "Expected a file or a folder to import at no-such.json"),
        (["rescore", "FILE", "no.such:rubric"], 1, "no.such:rubric"),
    ],
)
def test_mistakes_are_said(openenv: Any, file: str, arguments: list[str], status: int, message: str) -> None:
    ended = openenv("traces", *[file if argument == "FILE" else argument for argument in arguments])
    assert ended.returncode == status
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_prune_removes_old_episodes(openenv_here: Any, file: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(file).read_bytes())
    assert openenv_here("traces", "prune", str(copy), "--older-than", "7d").stdout == "Removed 0 episodes.\n"
    assert openenv_here("traces", "prune", str(copy), "--older-than", "0s").stdout == "Removed 2 episodes.\n"
    assert openenv_here("traces", "list", str(copy)).stdout == ""


def test_every_command_takes_a_database(openenv_here: Any, file: str, tmp_path: Path) -> None:
    """And none shows its password."""
    with running_postgres() as cluster:
        database = cluster.address("traces", password="hidden-pass")
        with cluster.connect() as connection:
            connection.execute("CREATE DATABASE traces")
        exported = str(tmp_path / "all.jsonl")
        openenv_here("traces", "export", file, exported, "--to", "jsonl")

        def said(command: str, *arguments: str, status: int = 0) -> list[str]:
            ended = openenv_here("traces", command, database, *arguments)
            assert ended.returncode == status, ended.stderr
            assert "hidden-pass" not in ended.stdout + ended.stderr
            return list((ended.stdout or ended.stderr).splitlines())

        assert "found no traces" in " ".join(said("list", status=1))
        assert said("import", exported)[-1].endswith("/traces: 1-1 to 1-2.")
        assert len(said("list", "--seed", "2", "--text", "paddle", "--since", "1h")) == 1
        assert "environment: catch" in said("show", "1-1")
        assert said("replay", "1-1")[-1] == "10 of 10 are the same."
        assert said("diff", "1-1", "1-2", status=1)
        assert len(said("tasks")) == 2
        (tmp_path / "rules.py").write_text("def stays(action, observation):\n    return float(action.move == 'stay')\n")
        assert len(said("rescore", f"{tmp_path / 'rules.py'}:stays")) == 2
        for to in ("messages", "atif", "inspect", "jsonl"):
            assert said("export", str(tmp_path / to), "--to", to)[-1].startswith("Exported 2 episodes")
        assert said("prune", "--older-than", "0s") == ["Removed 2 episodes."]


def test_export_import_and_rescore_a_file(openenv_here: Any, file: str, tmp_path: Path) -> None:
    exported = openenv_here("traces", "export", file, str(tmp_path / "log.eval"), "--to", "inspect", "--env", "catch")
    assert exported.stdout == f"Exported 2 episodes to {tmp_path / 'log.eval'}.\n"
    other = str(tmp_path / "other.db")
    imported = openenv_here("traces", "import", other, str(tmp_path / "log.eval"))
    assert imported.stdout == f"Imported 2 episodes into {other}: 1-1 to 1-2.\n"
    assert openenv_here("traces", "replay", other, "1-1").stdout.splitlines()[-1] == "10 of 10 are the same."
    (tmp_path / "rules.py").write_text(
        "from openenv.core.rubrics import Rubric\n"
        "class Stays(Rubric):\n"
        "    def forward(self, action, observation):\n"
        "        return float(action.move == 'stay')\n"
    )
    scored = openenv_here("traces", "rescore", other, f"{tmp_path / 'rules.py'}:Stays", "--limit", "1")
    assert "  Stays +" in scored.stdout
    name = scored.stdout.split()[0]
    assert "score Stays: +" in openenv_here("traces", "show", other, name).stdout


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Forty episodes, closed in order."""
    path = tmp_path / "stored.db"
    with traces.open(path, create=True) as file:
        for number in range(40):
            file.add(episode(number), entries(20, "x" * 200))
    return path


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_a_truncated_file_is_said_and_stays_as_it_is(openenv_here: Any, stored: Path, share: float) -> None:
    content = stored.read_bytes()
    stored.write_bytes(content[: int(len(content) * share)])
    for command in (["list", stored], ["show", stored, "1-1"], ["export", stored, "new.jsonl", "--to", "jsonl"]):
        ended = openenv_here("traces", *command)
        assert ended.returncode == 1
        assert f"The traces {stored} are damaged" in ended.stderr
    assert stored.read_bytes() == content[: int(len(content) * share)]
    assert not (stored.parent / "new.jsonl").exists()


def test_a_locked_file_is_said_and_can_be_read_while_another_process_writes(
    openenv_here: Any, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.traces.sqlite.BUSY_TIMEOUT_S", 0.05)
    is_locked = f"The traces {stored} can't be used: database is locked."
    with connected(stored) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert len(openenv_here("traces", "list", stored).stdout.splitlines()) == 40
        ended = openenv_here("traces", "prune", stored, "--older-than", "0s")
        assert (ended.returncode, is_locked in ended.stderr) == (1, True)
    with connected(stored) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        ended = openenv_here("traces", "list", stored)
        assert (ended.returncode, is_locked in ended.stderr) == (1, True)
    assert len(openenv_here("traces", "list", stored).stdout.splitlines()) == 40


def test_a_row_that_can_not_be_shown_spoils_no_list(tmp_path: Path, openenv_here: Any) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        for number in range(3):
            opened.add(episode(number), entries())
    with connected(path) as connection:
        connection.execute("UPDATE episode SET started_at = 1e300 WHERE seed = '1'")
        connection.execute("UPDATE episode SET environment = char(27) || '[2J' WHERE seed = '2'")
    listed = openenv_here("traces", "list", str(path)).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["1-2", "1-3", "1-1"]
    assert listed[0] == "1-2          unreadable: started_at: Input should be less than 253370764800"
    assert "\x1b" not in "".join(listed)
    assert "ending: unreadable" in openenv_here("traces", "show", str(path), "1-2").stdout


def test_a_folder_leads_to_the_file_of_traces_in_it(tmp_path: Path, openenv_here: Any) -> None:
    with traces.open(tmp_path / "traces.db", create=True) as opened:
        opened.add(episode(1), entries())
    assert openenv_here("traces", "list", str(tmp_path)).stdout.startswith("1-1 ")
    (tmp_path / "empty").mkdir()
    refused = openenv_here("traces", "list", str(tmp_path / "empty"))
    assert (refused.returncode, "or one file of traces (.db); found none" in refused.stderr) == (1, True)


def test_an_episode_is_labelled_listed_and_exported_by_its_label(
    openenv_here: Any, stored: Path, tmp_path: Path
) -> None:
    assert openenv_here("traces", "label", str(stored), "1-3", "good", "--note", "quick").returncode == 0
    assert openenv_here("traces", "label", str(stored), "1-4", "good").returncode == 0
    assert openenv_here("traces", "label", str(stored), "1-4").returncode == 0
    (line,) = openenv_here("traces", "list", str(stored), "--label", "good").stdout.splitlines()
    assert line.startswith("1-3 ")
    assert line.endswith("  label good")
    assert "note: quick" in openenv_here("traces", "show", str(stored), "1-3").stdout
    exported = openenv_here(
        "traces", "export", str(stored), str(tmp_path / "good.jsonl"), "--to", "jsonl", "--label", "good"
    )
    assert exported.stdout.startswith("Exported 1 episodes to ")
