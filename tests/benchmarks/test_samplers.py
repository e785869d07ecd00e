"""Two samplers of tasks: the doors that are trained on, a short run of each, and figures of runs measured before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.programs.locks import DIFFICULTIES, IMPOSSIBLE, KEYS, SOLVABLE, LocksEnvironment, Turn, key_of
from benchmarks.samplers import KINDS, ROOT
from PIL import Image

COMMAND = [sys.executable, "-m", "benchmarks.samplers"]


def rewards_of(difficulty: int, wrong_at: int | None = None) -> list[float | None]:
    """Turn the right keys until the episode is over, but for one."""
    environment = LocksEnvironment()
    seen = environment.reset(difficulty=difficulty)
    rewards: list[float | None] = []
    while not seen.done:
        right = key_of(len(rewards))
        wrong = next(key for key in KEYS if key != right)
        seen = environment.step(Turn(key=wrong if len(rewards) == wrong_at else right))
        rewards.append(seen.reward)
    return rewards


def test_doors_go_from_trivial_to_impossible() -> None:
    assert rewards_of(0, wrong_at=0) == [1.0]
    for difficulty in SOLVABLE[1:]:
        assert rewards_of(difficulty) == [0.0] * (difficulty - 1) + [1.0]
        assert rewards_of(difficulty, wrong_at=difficulty - 1) == [0.0] * difficulty
    assert [rewards_of(difficulty) for difficulty in IMPOSSIBLE] == [[0.0]] * len(IMPOSSIBLE)
    assert [*SOLVABLE, *IMPOSSIBLE] == [*DIFFICULTIES]
    assert {key_of(lock) for lock in range(max(SOLVABLE))} == set(KEYS), "no key opens all"


def test_runs_that_are_there_are_compared_and_drawn(tmp_path: Path) -> None:
    for kind, scale in (("uniform", 4), ("curriculum", 1)):
        for seed in (1, 2):
            counts = {"episodes": 100 * scale, "cost": 300 * scale * seed, "signal_groups": 20}
            curve = [{name: count * part for name, count in counts.items()} | {"reward": part} for part in (0.5, 1.0)]
            (tmp_path / f"{kind}-{seed}.json").write_text(json.dumps(curve), encoding="utf-8")
    picture = tmp_path / "picture.png"
    options = ["--seeds", "2", "--folder", str(tmp_path), "--picture", str(picture)]
    shown = subprocess.run([*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "seed 2, curriculum: mean reward 1.00 after 100 episodes, 600 tokens\n" in shown
    for cells in (["400", "100", "0.250 [0.250, 0.250]"], ["1,800", "450", "0.250"], ["20", "20", "1.000"]):
        assert any(all(cell in line for cell in cells) for line in shown.splitlines()), cells
    with Image.open(picture) as drawn:
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20) or ()}
    assert {tuple(bytes.fromhex(colour[1:])) for colour in KINDS.values()} <= colours


@pytest.mark.level("training")
def test_a_short_run_leaves_a_curve(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.programs.train_locks", "curriculum", str(tmp_path / "curve.json")]
    subprocess.run([*command, "--steps", "5"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (point,) = json.loads((tmp_path / "curve.json").read_text())
    assert (point["groups"], point["episodes"]) == (5 * 4, 5 * 4 * 8)
    assert 1 / len(SOLVABLE) <= point["reward"] <= 1, "a trivial door opens with any key"
