"""Faults of environments: each is counted under its kind, and none is a reward of 0."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console
from tests.support.environments.exiting import Exiting
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.core.generic_client import GenericEnvClient
from openenv.records.failures import failure_kind, failures_in
from openenv.records.run_folder import RunFolder
from openenv.testing import FAULTS, Faults, Strikes, with_faults
from openenv.traces.episodes import Filter
from openenv.traces.reading import TraceFile
from openenv.train import EnvSpec, Sessions, TrainConfig
from openenv.train.agents.policy import make_policy
from openenv.train.dataset.collecting import collect
from openenv.train.dataset.rollout_traces import RunRecorder
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.quiet import quiet_libraries
from openenv.train.run.environments import OpenRun
from openenv.train.run.grpo import make_trainer
from openenv.train.settings.play_settings import PlaySettings

QUIET = Console(file=StringIO())
SAFE = Faults().kinds


@contextmanager
def served(faults: Faults) -> Iterator[tuple[RunningServer, Strikes]]:
    """Serve stairs of which a share of the episodes fails."""
    struck = with_faults(StairsEnvironment, faults)
    app = create_fastapi_app(struck, Climb, Stairs, max_concurrent_envs=64)
    with RunningServer(app) as server:
        yield server, struck.strikes


def settings_of(server: RunningServer) -> PlaySettings:
    return PlaySettings(environment=server.url, player="random", max_turns=40)


def test_the_same_seed_strikes_the_same_episodes() -> None:
    def names(seed: int) -> list[Any]:
        strikes = Strikes(Faults(seed=seed))
        return [None if (strike := strikes.draw()) is None else vars(strike)["_name"] for _ in range(200)]

    assert names(1) == names(1) != names(2)
    struck = [name for name in names(1) if name is not None]
    assert 40 <= len(struck) <= 80
    assert Counter(struck).keys() == set(SAFE)


@pytest.mark.parametrize("name", SAFE)
def test_each_fault_is_the_failure_that_it_is_said_to_be(name: str) -> None:
    with (
        served(Faults(kinds=(name,), share=1.0, within=1)) as (server, strikes),
        GenericEnvClient(server.url).sync() as client,
    ):
        error: OpenEnvError | None = None
        in_reset = False
        try:
            client.reset(seed=3)
        except OpenEnvError as raised:
            error, in_reset = raised, True
        if error is None:
            try:
                result = client.step({"move": "up"})
            except OpenEnvError as raised:
                error = raised
            else:
                error = result.reward_error
    assert error is not None
    assert failure_kind(error, in_reset=in_reset) == FAULTS[name]
    assert strikes.kinds() == {FAULTS[name]: 1}


def test_a_step_that_hangs_is_a_failure_of_time() -> None:
    faults = Faults(kinds=("hang",), share=1.0, within=1, hang_s=3.0)
    with served(faults) as (server, _), GenericEnvClient(server.url, message_timeout_s=0.5).sync() as slow:
        slow.reset(seed=3)
        with pytest.raises(OpenEnvError) as raised:
            slow.step({"move": "up"})
    assert failure_kind(raised.value) == "timeout"


def test_a_process_that_ends_is_a_kind_of_its_own() -> None:
    app = create_fastapi_app(Exiting, Climb, Stairs, max_concurrent_envs=2, isolation="process")
    with RunningServer(app) as server, GenericEnvClient(server.url).sync() as client:
        client.reset(seed=3)
        with pytest.raises(OpenEnvError) as raised:
            client.step({"move": "up"})
    assert failure_kind(raised.value) == "process_ended"


def test_an_instance_can_have_faults_too() -> None:
    instance = with_faults(StairsEnvironment(), Faults(kinds=("raises",), share=1.0, within=1))
    instance.reset(seed=3)
    with pytest.raises(RuntimeError, match="on purpose"):
        instance.step(Climb(move="up"))
    assert instance.strikes.counts == {"raises": 1}


@pytest.mark.parametrize("wrong", [{"kinds": ("typo",)}, {"kinds": ()}, {"share": 1.5}, {"within": 0}])
def test_faults_that_there_are_none_of_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Expected"):
        Faults(**wrong)


def test_no_failure_is_a_reward_of_0_in_an_evaluation_or_a_collection(tmp_path: Path) -> None:
    with served(Faults(share=0.0)) as (server, _):
        whole = evaluate(settings_of(server), tmp_path / "whole", num_tasks=90, sessions=8, console=QUIET)
    with served(Faults(share=0.3)) as (server, strikes):
        struck = evaluate(settings_of(server), tmp_path / "struck", num_tasks=90, sessions=8, console=QUIET)
        assert struck.failures == strikes.kinds()
        collected = collect(settings_of(server), 60, tmp_path / "data", sessions=8, console=QUIET)
    assert struck.failed == sum(struck.failures.values()) > 15
    assert len(struck.failures) >= 9
    for before, after in zip(whole.tasks, struck.tasks, strict=True):
        assert after.rewards == ([] if after.failed else before.rewards)
    with TraceFile(tmp_path / "struck" / "traces.db") as traces:
        recorded = list(traces.episodes(Filter()))
    assert sum(each.error is not None for each in recorded) == struck.failed
    assert all((each.reward is None) == (each.error is not None) for each in recorded)
    kept = [task.rewards[0] for task in struck.tasks if task.rewards]
    assert struck.mean_reward.value == pytest.approx(fmean(kept))
    lines = collected.collection.read()
    assert (len(lines), collected.kept) == (60 - collected.failed,) * 2
    assert sum(collected.failures.values()) == collected.failed > 5
    assert all(line["done"] or line["length"] == 40 for line in lines)


def test_no_failure_is_a_reward_of_0_in_a_training(tmp_path: Path) -> None:
    config = TrainConfig(
        environment="stairs", rollouts=16, group_size=4, steps=6, max_turns=5, fallback="up", output_dir=tmp_path
    )
    with served(Faults(share=0.3)) as (server, strikes), Sessions.open(server.url, 16) as sessions, quiet_libraries():
        policy = make_policy(config, sessions)
        before = Counter(strikes.kinds())
        folder = config.make_folder("stairs")
        run = OpenRun(config, folder, None, {"": sessions}, RunRecorder(config, folder), QUIET)
        make_trainer(run, {"": policy}).train()
        struck = Counter(strikes.kinds()) - before
    rows = folder.read_metrics()
    assert failures_in(rows) == struck
    assert sum(row["episode/failed"] * 16 for row in rows) == pytest.approx(struck.total())
    assert struck.total() > 15
    check_rewards(folder, rows)


def check_rewards(folder: RunFolder, rows: list[dict[str, Any]]) -> None:
    """Compare the mean of each step with the episodes that count, and what TRL learned from with the same."""
    for row in rows:
        (line,) = folder.rollouts_at(row["step"])[1]
        counted = [note for note in line["episodes"] if "error" not in note]
        assert all(("error" in note) == ("failure" in note) for note in line["episodes"])
        assert row["episode/reward"] == pytest.approx(fmean(note["reward"] for note in counted))
        learned = [note["reward"] - 0.1 * note["illegal_actions"] for note in counted]
        assert row["reward"] == pytest.approx(fmean(learned), abs=1e-6), "TRL's own baseline leaves failures out"


def test_no_failure_is_a_reward_of_0_in_trl_s_own_loop() -> None:
    logged: dict[str, float] = {}
    with served(Faults(share=0.4)) as (server, strikes), EnvSpec(server.url, max_turns=9) as spec:
        before = Counter(strikes.kinds())
        games: list[Any] = [spec.environment_factory() for _ in range(40)]
        for seed, game in enumerate(games):
            game.reset(seed=seed % 8)
            while not game.done and game.error is None and game.length < 9:
                game.climb("up")
        struck = Counter(strikes.kinds()) - before
        (reward,) = spec.reward_funcs
        rewards = reward(environments=games, completions=[[]] * 40, log_metric=logged.__setitem__)
    counts = {name.removeprefix("episode/failures/"): count for name, count in logged.items() if "/failures/" in name}
    assert counts == struck
    assert rewards.count(None) == struck.total() > 8
    assert logged["episode/reward"] == pytest.approx(fmean(each for each in rewards if each is not None))
