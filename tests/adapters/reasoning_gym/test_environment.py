"""Datasets of reasoning-gym served, beside the same ones in this process."""

import copy
from itertools import count
from typing import Any

import pytest
from reasoning_gym import create_dataset
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.reasoning_gym import AnswerAction, ReasoningEnvironment
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import RequestRejectedError, ResetNeededError, TaskNotFoundError
from openenv.core.tasks import split_of
from openenv.core.tasks.sources import SPLITS

pytestmark = pytest.mark.timeout(180)

DATASETS = [
    "chain_sum",
    "leg_counting",
    "basic_arithmetic",
    "graph_color",
    "mini_sudoku",
    "word_sorting",
    "propositional_logic",
]


def served(dataset_id: str) -> RunningServer:
    return RunningServer(find_adapted(f"reasoning_gym:{dataset_id}").app())


def is_of(entry: dict[str, Any], split: str) -> bool:
    return split_of(entry["question"]) == split


@pytest.mark.parametrize("name", DATASETS)
def test_questions_and_scores_are_the_datasets_own(name: str) -> None:
    with served(f"{name}?seed=5&size=3") as server, GenericEnvClient(base_url=server.url).sync() as client:
        theirs = create_dataset(name, seed=5, size=3)
        for split in SPLITS:
            for index in range(3):
                of_split = (entry for entry in map(theirs.__getitem__, count(index, 3)) if is_of(entry, split))
                entry = next(of_split)
                # A part of the answer is worth something in some datasets.
                right = str(entry["answer"])
                for answer in (right, f"I think {right}", right[: len(right) // 2], "", "nothing\x00"):
                    asked = client.reset(split=split, index=index)
                    assert (asked.observation["text"], asked.done, asked.reward) == (entry["question"], False, None)
                    result = client.step({"answer": answer})
                    assert (result.reward, result.done) == (theirs.score_answer(answer, entry), True)
                    assert result.metadata is not None
                    assert result.metadata["answer"] == entry["answer"]


def test_a_part_of_an_answer_is_not_worth_all() -> None:
    with served("chain_sum?seed=7") as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(index=0)
        reward = client.step({"answer": "it is 247"}).reward
        assert reward is not None
        assert 0.0 < reward < 1.0


def test_nothing_shows_the_answer_before_it_is_given() -> None:
    with served("leg_counting") as server, GenericEnvClient(base_url=server.url).sync() as client:
        asked = client.reset(seed=1)
        assert asked.metadata == {"split": "train", "index": 1}
        assert "answer" not in asked.observation
        assert set(client.state()) == {"episode_id", "step_count", "dataset", "split", "index"}
        with server.http() as http:
            (task,) = http.post("/reasoning_gym:leg_counting/tasks", json={"split": "test"}).json()["tasks"][3:4]
        assert task == {"split": "test", "index": 3}


def test_a_seed_chooses_the_task_and_neighbours_differ() -> None:
    env = ReasoningEnvironment("chain_sum", {"size": 10})
    assert [env.reset(seed=seed).metadata["index"] for seed in (0, 3, 13)] == [0, 3, 3]
    assert len({env.reset().text for _ in range(200)}) == 10


def test_an_answer_that_the_scoring_fails_on_is_worth_nothing() -> None:
    with served("prime_factorization") as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=1)
        result = client.step({"answer": "I do not know."})
        assert (result.reward, result.done) == (0.0, True)
        assert result.metadata is not None
        assert result.metadata["score_error"].startswith("ValueError: invalid literal for int()")


def test_an_episode_is_one_step() -> None:
    env = ReasoningEnvironment("chain_sum")
    with pytest.raises(ResetNeededError, match="no question is open"):
        env.step(AnswerAction(answer="1"))
    env.reset(seed=1)
    env.step(AnswerAction(answer="1"))
    with pytest.raises(ResetNeededError, match="no question is open"):
        env.step(AnswerAction(answer="1"))


@pytest.mark.parametrize(("split", "index"), [("dev", 0), ("train", -1), ("train", 500)])
def test_a_task_that_is_not_there_is_refused(split: str, index: int) -> None:
    with pytest.raises(TaskNotFoundError, match=r"Expected (one of the splits|an index from 0 to 499)"):
        ReasoningEnvironment("chain_sum").reset(split=split, index=index)
    with served("chain_sum") as server, GenericEnvClient(base_url=server.url).sync() as client:
        with pytest.raises(RequestRejectedError, match=r"no split 'dev'|Expected an index from 0 to 499"):
            client.reset(split=split, index=index)
        assert client.reset(index=0).done is False


def test_a_copy_scores_alike() -> None:
    env = ReasoningEnvironment("chain_sum", {"seed": 7})
    env.reset(index=0)
    twin = copy.deepcopy(env)
    answers = [each.step(AnswerAction(answer="247")) for each in (env, twin)]
    assert answers[0] == answers[1]
    assert answers[0].reward == 1.0


def test_a_person_is_shown_how_the_answer_was_scored() -> None:
    env = ReasoningEnvironment("chain_sum", {"seed": 7})
    assert env.render() is None
    env.reset(index=0)
    assert env.render() is None
    env.step(AnswerAction(answer="5"))
    assert env.render() == "score 0; the dataset's own answer: 247"
    env.reset(index=0)
    assert env.render() is None


def test_its_tasks_are_listed_lightly() -> None:
    env = ReasoningEnvironment("chain_sum", {"size": 4})
    assert env.list_splits() == ["train", "validation", "test"]
    assert env.num_tasks("test") == 4
    assert env.get_task_range("test", 1, 3) == [{"split": "test", "index": 1}, {"split": "test", "index": 2}]
    assert env.list_tasks("train") == [env.get_task("train", index) for index in range(4)]
    with pytest.raises(IndexError):
        env.get_task("train", 4)


async def test_it_is_a_tool_over_mcp() -> None:
    found: Any = find_adapted("reasoning_gym:chain_sum?seed=7")
    with RunningServer(found.app()) as server, server.http() as http:
        listed = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()
    (tool,) = listed["result"]["tools"]
    assert tool["name"] == "answer"
    assert tool["inputSchema"]["required"] == ["answer"]
