"""Two samplers of tasks: the doors that are trained on, a short run of each, and figures of runs measured before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.programs.locks import (
    DIFFICULTIES,
    DOORS_OF_EACH,
    KEYS,
    OPENING,
    LocksEnvironment,
    Turn,
    keys_of,
    name_of,
)
from benchmarks.samplers import KINDS, LOWEST, ROOT
from PIL import Image

COMMAND = [sys.executable, "-m", "benchmarks.samplers"]


def rewards_of(door: int, difficulty: int) -> list[float]:
    """Try each key."""
    environment = LocksEnvironment()
    rewards = []
    for key in KEYS:
        environment.reset(door=door, difficulty=difficulty)
        seen = environment.step(Turn(key=key))
        assert seen.done
        rewards.append(float(seen.reward or 0))
    return rewards


def test_doors_go_from_trivial_to_impossible() -> None:
    assert list(OPENING) == sorted(OPENING, reverse=True)
    for door, difficulty in DIFFICULTIES.items():
        assert sum(rewards_of(door, difficulty)) == OPENING[difficulty]
    for difficulty in set(DIFFICULTIES.values()):
        doors = [door for door, own in DIFFICULTIES.items() if own == difficulty]
        assert len(doors) == DOORS_OF_EACH
        keys = {keys_of(door, difficulty) for door in doors}
        assert not OPENING[difficulty] or len(keys) > 1, "doors are alike"


def test_no_two_doors_have_one_name() -> None:
    assert len({name_of(door) for door in DIFFICULTIES}) == len(DIFFICULTIES)


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
    subprocess.run([*command, "--steps", "10"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (point,) = json.loads((tmp_path / "curve.json").read_text())
    assert (point["groups"], point["episodes"], point["cost"]) == (10 * 2, 10 * 2 * 8, 10 * 2 * 8)
    assert LOWEST < point["reward"] <= 1, "a trivial door opens with any key"
