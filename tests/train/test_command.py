"""``openenv train`` as a person uses it."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.goldens.golden import normalised
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner, Result

from openenv import traces
from openenv.cli.__main__ import build_app
from openenv.cli.commands import train as command
from openenv.records.run_folder import RunFolder
from openenv.train.run.training import TrainResult, train
from openenv.train.settings.config import TrainConfig, load_config

OPENENV = [sys.executable, "-m", "openenv.cli"]
SMALL: dict[str, Any] = {
    "sft": 24,
    "rollouts": 16,
    "group_size": 4,
    "steps": 9,
    "checkpoint_every": 3,
    "eval_episodes": 16,
    "traces_sample": 1.0,
}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["train", *arguments])


def options(settings: dict[str, Any]) -> list[str]:
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def test_help_comes_at_once() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from openenv.cli.__main__ import build_app; "
        "print(CliRunner().invoke(build_app(), ['train', '--help']).output); "
        "print([name for name in ('torch', 'transformers', 'trl', 'matplotlib') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "--group-size" in shown
    assert shown.splitlines()[-1] == "[]"


def test_every_option_is_a_setting() -> None:
    # --min-reward is a second name of --sft-min-reward, and --reward-component is given once for each component.
    shown = invoke("--help").output
    named = {name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", shown)}
    assert named - set(TrainConfig.model_fields) == {
        "help",
        "config",
        "resume",
        "view",
        "view_host",
        "view_port",
        "no_grpo",
        "lora_rank",
        "lora_alpha",
        "lora_dropout",
        "sampler_key",
        "sampler_cost",
        "sampler_success",
        "no_traces",
        "min_reward",
        "reward_component",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_environment"], "No environment is called 'no_such_environment'"),
        ([], "environment is missing"),
        (["catch", "--rollouts", "12"], "must be a multiple of group_size"),
        (["catch", "--config", "none.yaml"], "There is no file none.yaml"),
        (["--resume", "none"], "none is no run's folder"),
        (
            ["catch", "--reset", "sizze=4", "--output-dir", "{}"],
            "reset, for catch: reset does not take 'sizze'. It takes: seed, episode_id.",
        ),
        (["catch", "--fallback", "fly", "--output-dir", "{}"], "The fallback 'fly' is no legal"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = invoke(*(argument.format(tmp_path) for argument in arguments))
    assert result.exit_code == (2 if arguments in (["no_such_environment"], ["--resume", "none"]) else 1)
    assert message in result.output


@pytest.mark.parametrize(
    ("option", "value"),
    [("--steps", "0"), ("--group-size", "1"), ("--traces-sample", "1.5"), ("--traces-leave-out", "screenshot")],
)
def test_a_value_out_of_bounds_is_bad_usage(option: str, value: str) -> None:
    result = invoke("catch", option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


def test_resume_takes_no_other_setting(tmp_path: Path) -> None:
    for arguments in (["--seed", "0"], ["--config", "x.yaml"], ["catch"]):
        result = invoke("--resume", str(tmp_path), *arguments)
        assert result.exit_code == 2
        said = "--resume takes its settings from the run's config.yaml, but for --steps; leave out"
        assert said in " ".join(result.output.split())


def test_where_a_page_is_served_needs_a_page() -> None:
    for arguments in (["--view-port", "8100"], ["--view-host", "0.0.0.0"]):
        result = invoke("catch", *arguments)
        assert result.exit_code == 2
        assert "are the address of the page of --view; add --view." in " ".join(result.output.split())


@pytest.mark.timeout(900)
def test_a_training_ends_with_its_report_where_nothing_is_utf8(tmp_path: Path) -> None:
    small = options({"model": "tiny", "steps": 1, "rollouts": 8, "group_size": 4, "eval_episodes": 4})
    ended = subprocess.run(
        [*OPENENV, "train", "catch", *small, "--output-dir", "runs"],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"\\u00b1" in ended.stdout
    (report,) = tmp_path.glob("runs/*/report.html")
    assert "±" in report.read_text("utf-8")


@pytest.mark.timeout(900)
def test_a_killed_training_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """The whole way, in real processes: examples, GRPO on Catch's own server, ``kill -9``, resume, and the ending."""
    drawn = {"tasks": 12, "sampler": "curriculum"}
    start = [*OPENENV, "train", "catch", *options({**SMALL, **drawn, "output_dir": tmp_path, "name": "cut"})]
    folder = RunFolder(tmp_path / "cut")
    with subprocess.Popen(start, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 400
        while len(folder.read_metrics()) < 5:
            assert process.poll() is None, "the training ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    recorded = recorded_rollouts(folder)
    assert [recorded[step] for step in (1, 2, 3)] == [SMALL["rollouts"]] * 3, "a kill leaves what was written before it"
    resumed = subprocess.run(
        [*OPENENV, "train", "--resume", str(folder.path)], capture_output=True, text=True, timeout=400, check=True
    )
    assert resumed.stderr == "", "nothing of the libraries' own reaches the user"
    sampler = {"kind": drawn["sampler"]}
    whole = {**SMALL, "tasks": drawn["tasks"], "sampler": sampler, "output_dir": tmp_path, "name": "whole"}
    undisturbed = train(load_config(environment="catch", **whole))
    assert played_seeds(folder) == played_seeds(undisturbed.folder), "a sampler draws the same tasks"
    models = [AutoModelForCausalLM.from_pretrained(str(each.model)) for each in (folder, undisturbed.folder)]
    states = [{name: tensor.tolist() for name, tensor in model.state_dict().items()} for model in models]
    assert states[0] == states[1]
    assert folder.read_scores() == undisturbed.scores
    assert normalised(folder.read_metrics()) == normalised(undisturbed.folder.read_metrics())
    check_ending(resumed.stdout, folder)


def played_seeds(folder: RunFolder) -> list[list[int]]:
    """Return the seeds of each step's episodes."""
    lines = [folder.rollouts_at(step)[1] for step in range(1, SMALL["steps"] + 1)]
    return [[note["task"]["seed"] for line in step for note in line["episodes"]] for step in lines]


def recorded_rollouts(folder: RunFolder) -> Counter[int]:
    """Count the rollouts of each step that the run's traces have, with their conversations."""
    with traces.open(folder.traces) as file:
        conversations = [record.conversation for record in file.records() if not record.episode.is_evaluation]
    return Counter(said.extra["step"] for said in conversations if said is not None)


def check_ending(shown: str, folder: RunFolder) -> None:
    """Check what is printed at the end: scores, places that exist, and commands that work."""
    model = [f"{when} training, {how}" for when in ("before", "after") for how in ("greedy", "sampled")]
    for player in (*model, "random player", "scripted player"):
        assert re.search(rf"{player} +[+-]\d\.\d\d\d +\d+% *\n", shown), player
    assert folder.read_scores()["scripted player"].mean_reward == 1.0
    for what in ("curve", "report", "model", "checkpoints"):
        place = re.findall(rf"^{what} +(.+)$", shown, re.MULTILINE)[-1]
        assert Path(place).exists()
    assert re.search(r"^time +\d+ s: generation \d+%, environment \d+%, training \d+%, evaluation", shown, re.MULTILINE)
    assert re.search(r"^speed +[\d,]+ tokens/s of the model, [\d,]+ actions/s of the environment$", shown, re.MULTILINE)
    commands = shown.partition("Next:\n")[2].splitlines()
    assert commands == [
        f"  openenv view {folder.path}",
        f"  openenv train --config {folder.config} --name cut-seed-2 --seed 2",
        "  openenv play catch",
        "  openenv init my_env",
    ]
    for line in commands:
        assert CliRunner().invoke(build_app(), [*shlex.split(line)[1:], "--help"]).exit_code == 0


def test_the_next_command_keeps_what_the_run_was_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = f"openenv train --config {tmp_path}/config.yaml"
    settings: dict[str, Any]
    for settings, expected in (
        ({}, "openenv train catch --model tiny --seed 2"),
        ({"seed": 7, "model": "my model"}, "openenv train catch --model 'my model' --seed 8"),
        ({"sft": 24}, f"{recipe} --seed 2"),
        ({"reset": {"x": 1}, "name": "a b"}, f"{recipe} --name 'a b-seed-2' --seed 2"),
        ({"lora": {"rank": 4}, "seed": 2, "name": "a-seed-2"}, f"{recipe} --name a-seed-3 --seed 3"),
    ):
        folder = RunFolder(tmp_path)
        config = load_config(environment="catch", **settings)
        config.save(folder.config)
        command._show_result(TrainResult("catch", folder, {}, 1.0, 1), Console(width=100))
        line = capsys.readouterr().out.partition("Next:\n")[2].splitlines()[1].strip()
        assert line == expected
        parsed = shlex.split(line)
        if "--config" in parsed:
            name = parsed[parsed.index("--name") + 1] if "--name" in parsed else None
            again = load_config(Path(parsed[3]), name=name, seed=config.seed + 1)
            assert again == config.model_copy(update={"seed": config.seed + 1, "name": name})
