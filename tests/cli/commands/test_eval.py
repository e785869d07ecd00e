"""``openenv eval`` as a person uses it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold
from tests.support.models.model_server import ScriptedModel


def test_what_is_shown_and_where_it_lies(openenv_here: Any, tmp_path: Path) -> None:
    shown = openenv_here("eval", "catch", "--player", "random", "--tasks", "12", "--samples", "3", "--k", "2").stdout
    text = " ".join(shown.split())
    assert "random player on catch 12 tasks, 3 attempts at each mean 95% interval" in text
    assert re.search(r"reward [+-]0\.\d{3} [+-]\d\.\d{3} to [+-]\d\.\d{3} pass@2 0\.\d{3} 0\.\d{3} to 0\.\d{3}", text)
    assert "the 10 worst tasks" in text
    (folder,) = (tmp_path / "evals").iterdir()
    assert folder.name.startswith("catch-random-player-")
    for what in ("results", "episodes", "traces"):
        place = re.findall(rf"^{what} +(.+)$", shown, re.MULTILINE)[-1]
        assert Path(place).is_file()
    results = json.loads((folder / "results.json").read_text())
    assert list(results["pass_at"]) == ["2"]
    assert f"pass@2 {results['pass_at']['2']['value']:.3f}" in text


def test_results_have_the_environments_name_wherever_its_folder_is(
    openenv_here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scaffold(tmp_path, "my_env")
    monkeypatch.chdir(folder)
    shown = openenv_here("eval", ".", "--player", "random", "--tasks", "2", "--max-turns", "2")
    assert "random player on my_env" in shown.stdout
    (results,) = (folder / "evals").iterdir()
    assert results.name.startswith("my_env-random-player-")
    assert json.loads((results / "results.json").read_text())["environment"] == "my_env"
    assert json.loads((results / "settings.json").read_text())["environment"] == "my_env"
    line = json.loads((results / "episodes.jsonl").read_text().splitlines()[0])
    assert line["environment"] == "my_env"


def test_json_alone(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("eval", "wordle", "--tasks", "3", "--json", "--output", "e", "--max-turns", "6", "--no-traces")
    assert not (tmp_path / "e" / "traces.db").exists()
    results = json.loads(ended.stdout)
    assert results["mean_reward"]["value"] == 1.0
    assert results["pass_at"]["1"]["low"] == pytest.approx(0.4385, abs=1e-3)
    assert len(results["tasks"]) == 3


def test_two_evaluations_are_compared(openenv_here: Any, tmp_path: Path) -> None:
    openenv_here("eval", "catch", "--player", "random", "--tasks", "12", "--output", "random", "--no-traces")
    shown = openenv_here("eval", "catch", "--tasks", "9", "--output", "scripted", "--compare", "random").stdout
    compared = json.loads((tmp_path / "scripted" / "results.json").read_text())["comparison"]
    assert "compared with random player on catch, 9 tasks in common; 3 in only one of them" in shown
    assert f"{len(compared['fixed'])} fixed, 0 regressed; by chance with probability" in shown
    assert re.search(r"^reward +\+\d\.\d{3} \+\d\.\d{3} to \+\d\.\d{3}$", shown, re.MULTILINE)
    assert shown.count("\nfixed ") == len(compared["fixed"]) > 0
    refused = openenv_here("eval", "catch", "--compare", "nowhere")
    assert refused.returncode == 2
    assert "no results.json" in refused.stderr


def test_the_smaller_number_of_tasks(openenv_here: Any) -> None:
    for numbers in (["--tasks", "9", "--num-tasks", "2"], ["--tasks", "2", "--num-tasks", "9"]):
        assert "\n2 tasks " in openenv_here("eval", "catch", "--player", "random", *numbers).stdout


@pytest.mark.needs("reasoning-gym")
def test_a_split_by_its_name(openenv_here: Any) -> None:
    ended = openenv_here(
        "eval", "reasoning_gym", "--player", "scripted", "--tasks", "train", "--num-tasks", "2", "--output", "e"
    )
    assert "2 tasks" in ended.stdout
    assert '{"split": "train", "index": 1}' in ended.stdout


def test_the_scripted_player_plays_unless_another_is_named(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("eval", "catch", "--tasks", "1", "--output", tmp_path / "results")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "scripted player on catch" in ended.stdout


def test_a_model_that_can_t_be_is_refused_before_torch_is_imported() -> None:
    program = (
        "import sys\nfrom openenv.cli.__main__ import main\n"
        "sys.argv = ['openenv', 'eval', 'catch', '--model', 'tiny']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    print(ended.code, 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "2 False\n"


def test_mistakes(openenv_here: Any) -> None:
    for arguments, message in (
        (["catch", "catch"], "scripted player on catch would be evaluated twice"),
        (["catch", "wordle", "--compare", "e"], "--compare is for one evaluation, and there are 2"),
        (["catch", "wordle", "--base-url", "http://x:1"], "--base-url is the address of one environment's server"),
        (["catch", "--model", "tiny"], "train it, as in `openenv train catch`"),
        (["catch", "--model", "./none"], "There is no folder ./none"),
        (["catch", "--model", "me/m", "--base-url", "http://x:1"], "The address of a served model is --llm-endpoint"),
        (["catch", "--player", "random", "--k", "2"], "pass@2 needs 2 samples of each task, and there are 1"),
        (["catch", "--player", "random", "--tasks", "none.jsonl"], "none.jsonl"),
        (["catch", "--player", "random", "--tasks", "0"], "Expected num_tasks to be 1 or more, got 0."),
        (["catch", "--player", "random", "--tasks", "validation"], "lists no tasks"),
    ):
        ended = openenv_here("eval", *arguments)
        is_model = message.startswith(("train it", "There is no folder", "The address of a served"))
        assert ended.returncode == (2 if is_model else 1), arguments
        assert message in ended.stderr


def test_parameters_of_every_reset(openenv_here: Any, tmp_path: Path) -> None:
    command = ("eval", "wordle", "--player", "scripted", "--tasks", "2", "--max-turns", "2", "--output", "e")
    ended = openenv_here(*command, "--reset", "word_length=4", "--json")
    assert [task["task"]["word_length"] for task in json.loads(ended.stdout)["tasks"]] == [4, 4]
    assert json.loads((tmp_path / "e" / "settings.json").read_text())["reset"] == {"word_length": 4}
    assert "were played with reset {'word_length': 4}, not None" in openenv_here(*command).stderr


def evaluated(openenv_here: Any, folder: Path, answer: str, *options: str) -> tuple[str, dict[str, Any]]:
    """Evaluate a model that gives one answer; return what is shown, and the results."""
    model = ScriptedModel(lambda messages: answer)
    played = ["eval", "catch", "--model", "climber", "--llm-endpoint", model.url, "--tasks", "8", "--no-traces"]
    with model.server:
        ended = openenv_here(*played, "--output", folder, *options)
    assert ended.returncode == 0, ended.stderr
    return " ".join(ended.stdout.split()), json.loads((folder / "results.json").read_text())


def test_nonsense_that_wins_as_the_fallback_is_warned_of(openenv_here: Any, tmp_path: Path) -> None:
    shown, results = evaluated(openenv_here, tmp_path / "e", "I like bananas.", "--form", "text")
    assert results["pass_at"]["1"]["value"] == 0.5, "as before: the fallback wins half of these games"
    assert results["legal"] == {"episodes": 0, "mean_reward": None, "pass_at": {"1": results["legal"]["pass_at"]["1"]}}
    assert results["legal"]["pass_at"]["1"]["value"] == 0.0
    assert "pass@1 by legal answers 0.000" in shown
    assert "illegal actions 9.00 100% of answers episodes without one 0 of 8" in shown
    assert "illegal answers: each is played as 'stay'" in shown
    assert "warning: 100% of the answers were no legal action, most often 'I like bananas.' (72 times)" in shown
    assert "warning: The mean reward is of 8 tasks and one seed, with a 95% interval 1.79 wide" in shown
    assert results["warnings"].keys() == {"illegal_answers", "few_episodes"}
    assert results["answers"]["illegal_texts"] == {"I like bananas.": 72}


def test_a_model_that_calls_no_tool_is_not_one_that_lost(openenv_here: Any, tmp_path: Path) -> None:
    shown, results = evaluated(openenv_here, tmp_path / "e", "I would go left.")
    assert "answers without a call 100% 8 episodes without a call 100% 8" in shown
    assert "illegal answers: none is played" in shown
    assert "warning: In 100% of the episodes the model called no tool at all, so nothing was played" in shown
    assert (results["answers"]["no_calls"], results["answers"]["answers"]) == (8, 8)


@pytest.mark.parametrize(
    ("options", "reward", "length", "words"),
    [
        (["--illegal-answers", "end"], 0.0, 1, "each ends its episode"),
        (["--illegal-answers", "penalty", "--illegal-penalty", "0.5", "--max-turns", "3"], -1.5, 3, "each costs 0.5"),
        (["--fallback", "left", "--max-turns", "2"], 0.0, 2, "each is played as 'left'"),
    ],
)
def test_what_an_illegal_answer_does_is_a_setting(
    openenv_here: Any, tmp_path: Path, options: list[str], reward: float, length: int, words: str
) -> None:
    shown, results = evaluated(openenv_here, tmp_path / "e", "bananas", "--form", "text", *options)
    assert (results["mean_reward"]["value"], results["mean_length"]) == (reward, length)
    assert f"illegal answers: {words}" in shown


def test_episodes_end_at_limits(openenv_here: Any, tmp_path: Path) -> None:
    shown, results = evaluated(openenv_here, tmp_path / "e", "left", "--form", "text", "--max-answers", "2")
    assert "ended by max_answers 8 of 8" in shown
    assert (results["limits"], results["mean_length"], results["failed"]) == ({"max_answers": 8}, 2.0, 0)
    ended = openenv_here("eval", "catch", "--max-seconds", "0")
    assert ended.returncode == 2
    assert "greater than 0" in " ".join(ended.stderr.replace("│", " ").split())


def test_tokens_and_prices(openenv_here: Any, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {climber: {input: 10, output: 100}}\nsandbox_hour: 3600\ncpu_hour: 7200\n")
    options = ("left", "--form", "text", "--max-turns", "2", "--prices", str(prices))
    shown, results = evaluated(openenv_here, tmp_path / "e", *options)
    spent = results["spending"]
    tokens = spent["input_tokens"], spent["output_tokens"]
    assert tokens == (8 * 40, 8 * 10), "10 and 30 tokens read, and 5 written for each answer"
    assert 0 < spent["cpu_s"] < spent["seconds"]
    assert spent["price_usd"] == pytest.approx((320 * 10 + 80 * 100) / 1e6 + spent["seconds"] + 2 * spent["cpu_s"])
    assert "CPU seconds" in shown
    assert "tokens read 40.0 320 in all tokens written 10.0 80 in all seconds" in shown
    assert f"price, $ {spent['price_usd'] / 8:,.6f} {spent['price_usd']:,.4f} in all" in shown
    lines = [json.loads(line) for line in (tmp_path / "e" / "episodes.jsonl").read_text().splitlines()]
    assert [line["cost_usd"] for line in lines] == [pytest.approx((40 * 10 + 10 * 100) / 1e6)] * 8
    prices.write_text("models: {climber: {input: 0, output: 50}}\n")
    _, results = evaluated(openenv_here, tmp_path / "e", *options)
    assert results["spending"]["price_usd"] == pytest.approx(80 * 50 / 1e6), "the stored episodes by other prices"
    prices.write_text("models: {climber: {input: cheap, output: 50}}\n")
    ended = openenv_here("eval", "catch", "--prices", prices)
    assert ended.returncode == 2
    assert "models.climber.input is not as prices are" in " ".join(ended.stderr.replace("│", " ").split())


def test_what_a_user_in_the_environment_has_said_is_shown_apart(openenv_here: Any, tmp_path: Path) -> None:
    booking = str(Path(__file__).parents[3] / "examples" / "users" / "booking.py")
    played = ("--player", "random", "--max-turns", "3", "--no-traces")
    evaluated = openenv_here("eval", booking, *played, "--tasks", "4", "--output", "e").stdout
    replies = json.loads((tmp_path / "e" / "results.json").read_text())["participants"]["guest"]["replies"]
    assert replies >= 4, "the guest begins"
    assert f"\nguest: {replies} replies\n" in evaluated
    collected = openenv_here("collect", booking, *played, "--episodes", "2", "--output", "c").stdout
    assert re.search(r"^guest: \d+ replies$", collected, re.MULTILINE)


def test_a_grid_of_environments_and_players(openenv_here: Any, tmp_path: Path) -> None:
    command = ("eval", "catch", "wordle", "--player", "random", "--player", "scripted", "--tasks", "3", "--output", "e")
    ended = openenv_here(*command, "--no-traces")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "2/4  scripted player on catch" in ended.stdout
    assert re.search(r"^wordle +scripted player +\+1\.000 ", ended.stdout, re.MULTILINE)
    assert "report e/report.md\npage   e/report.html\n" in ended.stdout
    folders = [f"{name}-{player}-player" for name in ("catch", "wordle") for player in ("random", "scripted")]
    assert [cell["folder"] for cell in json.loads((tmp_path / "e" / "grid.json").read_text())] == folders
    for folder in folders:
        assert json.loads((tmp_path / "e" / folder / "results.json").read_text())["episodes"] == 3


def test_lenient_reading_is_a_setting_that_an_evaluation_states(openenv_here: Any, tmp_path: Path) -> None:
    strict, results = evaluated(openenv_here, tmp_path / "strict", 'The answer is "left."', "--form", "text")
    assert results["answers"]["illegal"] == 72
    shown, results = evaluated(openenv_here, tmp_path / "e", 'The answer is "left."', "--form", "text", "--lenient")
    assert (results["answers"]["illegal"], results["rule"]["lenient"]) == (0, True)
    assert "answers are read leniently" in shown
    assert "answers are read leniently" not in strict
    assert "by legal answers" not in shown
