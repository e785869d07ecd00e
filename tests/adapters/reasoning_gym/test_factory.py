"""From a dataset's id to its environment, here and in other processes."""

import pickle

import pytest
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.reasoning_gym import AnswerAction, environment_for
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import ConfigurationError

pytestmark = pytest.mark.needs("reasoning-gym")


def test_parameters_reach_the_dataset() -> None:
    env = environment_for("chain_sum?seed=7&size=2&min_terms=4&max_terms=4")()
    assert env.num_tasks("train") == 2
    text = env.reset(index=0).text
    assert text.count("+") + text.count("-") == 3
    assert text != environment_for("chain_sum?seed=8&size=2&min_terms=4&max_terms=4")().reset(index=0).text


def test_it_can_be_sent_to_another_process() -> None:
    env = pickle.loads(pickle.dumps(environment_for("chain_sum?seed=7")))()
    env.reset(index=0)
    assert env.step(AnswerAction(answer="247")).reward == 1.0


def test_it_runs_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_ISOLATION", "process")
    with (
        RunningServer(find_adapted("reasoning_gym:chain_sum?seed=7").app()) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        client.reset(index=0)
        assert client.step({"answer": "247"}).reward == 1.0


def test_those_that_run_answers_want_a_sandbox() -> None:
    with pytest.raises(ConfigurationError, match="sandbox=none"):
        find_adapted("reasoning_gym:countdown")
    env = environment_for("countdown?sandbox=none")()
    env.reset(seed=1)
    assert env.step(AnswerAction(answer="x")).reward is not None
