"""Every dataset behind one environment."""

import copy
from typing import Any

import pytest
from reasoning_gym.factory import DATASETS

from openenv.adapters.reasoning_gym import environment_for
from openenv.adapters.reasoning_gym.datasets import runs_answers
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentNotFoundError,
    InvalidRequestError,
    ResetNeededError,
    TaskNotFoundError,
)
from reasoning_gym_env import AnswerAction
from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment

pytestmark = pytest.mark.needs("reasoning-gym")

# They have no answer of their own, but judge one: several are right.
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
# Whatever is not "True" it takes for "False".
FOOLED = {"game_of_life_halting"}
# Their usual tasks take seconds to make.
SMALLER: dict[str, dict[str, Any]] = {
    "futoshiki": {"min_board_size": 4, "max_board_size": 4},
    "intermediate_integration": {"problem_types": ["linear"], "problem_type_weights": [1.0]},
    "knight_swap": {"min_nodes": 6, "max_nodes": 6, "min_pieces": 1, "max_pieces": 1},
    "zebra_puzzles": {"num_people": 2, "num_characteristics": 2},
}
NAMES = sorted(set(DATASETS) - {"composite"})


@pytest.fixture(scope="module")
def environment() -> ReasoningGymEnvironment:
    """One that may serve every dataset: the answers here are the datasets' own."""
    return ReasoningGymEnvironment(sandbox="none")


def test_there_are_some_hundred() -> None:
    assert len(NAMES) >= 100
    assert set(NAMES) > WITHOUT_ANSWER


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # arc_agi leaves files open
@pytest.mark.parametrize("name", NAMES)
def test_every_dataset_asks_and_gives_its_own_answer_full_marks(
    environment: ReasoningGymEnvironment, name: str
) -> None:
    asked = environment.reset(seed=3, dataset=name, config={"size": 20, **SMALLER.get(name, {})})
    assert len(asked.text) > 10
    assert (asked.done, asked.reward, asked.metadata) == (False, None, {"split": "train", "index": 3})
    wrong = copy.deepcopy(environment).step(AnswerAction(answer="certainly not this"))
    answer = wrong.metadata["answer"]
    assert answer is None or str(answer) not in str(asked.metadata)
    right = environment.step(AnswerAction(answer=str(answer)))
    assert right.done
    assert wrong.reward is not None
    assert right.reward is not None
    assert wrong.reward < 0.5 or name in FOOLED
    assert right.reward == 1.0 or name in WITHOUT_ANSWER
    assert (answer is None) == (name in WITHOUT_ANSWER)


@pytest.mark.parametrize("name", [name for name in NAMES if runs_answers(DATASETS[name][0])])
def test_datasets_that_run_answers_want_a_sandbox(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"{name} scores an answer by running it as Python"):
        ReasoningGymEnvironment().reset(dataset=name)
    mixed = {"datasets": [{"name": "chain_sum"}, {"name": name}]}
    with pytest.raises(InvalidRequestError, match=f"{name} scores an answer by running it as Python"):
        ReasoningGymEnvironment().reset(dataset="composite", config=mixed)
    with pytest.raises(InvalidRequestError, match="can't be made"):
        ReasoningGymEnvironment().reset(
            dataset="composite", config={"datasets": [{"name": "composite", "config": mixed}]}
        )


def test_it_is_the_dataset_that_the_adapter_serves() -> None:
    environment = ReasoningGymEnvironment()
    for name in ("chain_sum", "leg_counting", "word_sorting"):
        alone = environment_for(f"{name}?size=50&seed=7")()
        for seed in (0, 3, 49, 53):
            asked = environment.reset(seed=seed, dataset=name, config={"size": 50, "seed": 7})
            assert asked == alone.reset(seed=seed)
            answer = AnswerAction(answer="5")
            assert environment.step(answer) == alone.step(answer)


def test_the_servers_own_dataset_is_asked_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "arithmetic problem" in ReasoningGymEnvironment().reset(seed=1).text
    monkeypatch.setenv("REASONING_GYM_DATASET", "leg_counting")
    monkeypatch.setenv("REASONING_GYM_CONFIG", '{"size": 30, "max_animals": 3}')
    environment = ReasoningGymEnvironment()
    asked = environment.reset(index=29)
    assert "how many legs" in asked.text
    assert environment.num_tasks("test") == 30
    assert environment.get_task_range("test", 28) == [{"split": "test", "index": 28}, {"split": "test", "index": 29}]
    assert environment.reset(index=29, dataset="leg_counting") == asked
    assert environment.reset(index=29, config={"max_animals": 3, "size": 30}) == asked
    environment.reset(seed=499, dataset="chain_sum")
    assert environment.state.index == 499
    assert environment.reset(index=29) == asked


@pytest.mark.parametrize("config", ["[]", "{", "5"])
def test_a_config_of_the_server_that_is_none_is_told(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REASONING_GYM_CONFIG", config)
    with pytest.raises(ConfigurationError, match="REASONING_GYM_CONFIG is"):
        ReasoningGymEnvironment()


def test_a_dataset_of_the_server_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REASONING_GYM_DATASET", "chainsum")
    with pytest.raises(EnvironmentNotFoundError, match="Did you mean chain_sum"):
        ReasoningGymEnvironment()
    monkeypatch.setenv("REASONING_GYM_DATASET", "n_queens")
    with pytest.raises(ConfigurationError, match="sandbox=none"):
        ReasoningGymEnvironment()
    monkeypatch.setenv("REASONING_GYM_SANDBOX", "none")
    assert ReasoningGymEnvironment().reset(seed=1).text


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"dataset": "chainsum"}, InvalidRequestError, "Did you mean chain_sum"),
        ({"config": {"terms": 3}}, InvalidRequestError, "unexpected keyword argument"),
        ({"config": {"min_terms": -1}}, InvalidRequestError, "AssertionError"),
        ({"config": {"min_terms": "many"}}, InvalidRequestError, "TypeError"),
        ({"config": {"size": 0}}, InvalidRequestError, "size from 1"),
        ({"config": {"seed": -1}}, InvalidRequestError, "the seed from 0"),
        ({"dataset": "leg_counting", "split": "dev"}, TaskNotFoundError, "one of the splits"),
        ({"dataset": "leg_counting", "index": 500}, TaskNotFoundError, "from 0 to 499"),
        ({"seed": "1"}, InvalidRequestError, "whole number"),
        ({"dataset": "spell_backward", "config": {"data_file": "/etc/passwd"}}, InvalidRequestError, "without paths"),
        (
            {"dataset": "spell_backward", "config": {"data_file": "../__init__.py"}},
            InvalidRequestError,
            "without paths",
        ),
        (
            {
                "dataset": "composite",
                "config": {"datasets": [{"name": "spell_backward", "config": {"data_file": "../x"}}]},
            },
            InvalidRequestError,
            "without paths",
        ),
    ],
)
def test_a_reset_that_cannot_be_leaves_the_question_open(
    arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    environment = ReasoningGymEnvironment(config={"seed": 7})
    environment.reset(index=0)
    with pytest.raises(error, match=told):
        environment.reset(**arguments)
    assert environment.state.dataset == "chain_sum"
    assert environment.step(AnswerAction(answer="247")).reward == 1.0
    assert environment.render() == "score 1; the dataset's own answer: 247"
    with pytest.raises(ResetNeededError):
        environment.step(AnswerAction(answer="247"))


def test_operators_may_still_be_chosen() -> None:
    asked = ReasoningGymEnvironment().reset(seed=1, dataset="basic_arithmetic", config={"operators": ["*", "/"]})
    assert "+" not in asked.text


def test_a_mix_asks_of_each() -> None:
    environment = ReasoningGymEnvironment()
    mix = {"size": 30, "datasets": [{"name": "chain_sum"}, {"name": "leg_counting", "config": {"max_animals": 3}}]}
    texts = [environment.reset(index=index, dataset="composite", config=mix).text for index in range(30)]
    assert 5 < sum("legs" in text for text in texts) < 25


def test_a_copy_goes_its_own_way() -> None:
    environment = ReasoningGymEnvironment()
    environment.reset(seed=3, dataset="leg_counting")
    twin = copy.deepcopy(environment)
    environment.reset(seed=3, dataset="chain_sum")
    assert twin.state.dataset == "leg_counting"
    assert twin.step(AnswerAction(answer="no")).metadata["task"]["source_dataset"] == "leg_counting"
