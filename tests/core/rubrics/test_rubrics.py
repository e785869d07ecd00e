"""Rubrics: scores, names, hooks, cycles, what is refused, and how they travel from a served environment."""

import asyncio
import copy
import re
import sys
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest
from tests.support.models.judge_server import JudgeServer
from tests.support.models.malformed_answers import MALFORMED
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ModelAnswerError, OpenEnvError
from openenv.core.llm_client import LLMClient
from openenv.core.rubrics import (
    ExponentialDiscountingTrajectoryRubric,
    Gate,
    LLMJudge,
    Rubric,
    RubricDict,
    RubricList,
    Sequential,
    WeightedSum,
)
from openenv.core.rubrics.base import failed_component, tick
from openenv.core.rubrics.llm_judge import VerdictError


class Fixed(Rubric):
    """Scores what it was made with; calls no ``super().__init__()``."""

    def __init__(self, score: Any) -> None:
        self.score = score
        self.calls = 0

    def forward(self, action: Any, observation: Any) -> Any:
        self.calls += 1
        if isinstance(self.score, Exception):
            raise self.score
        return self.score


class FixedAsync(Fixed):
    async def forward(self, action: Any, observation: Any) -> Any:
        return self.score


class FailingAsync(Rubric):
    async def forward(self, action: Any, observation: Any) -> Any:
        raise ValueError("no score")


class Waiting(Rubric):
    """Waits for ever."""

    call: "asyncio.Task[Any] | None" = None

    async def forward(self, action: Any, observation: Any) -> Any:
        self.call = asyncio.current_task()
        await asyncio.Event().wait()


class Awaited(Rubric):
    """Scores what it is given in place of an action, once that is known."""

    async def forward(self, action: Any, observation: Any) -> Any:
        return await action


class Win(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return 1.0


class TestContainers:
    def test_a_sequence_stops_at_the_first_zero(self) -> None:
        last = Fixed(0.7)
        assert Sequential(Fixed(1), last)(None, None) == 0.7
        assert Sequential(Fixed(0), last)(None, None) == 0.0
        assert last.calls == 1
        assert Sequential()(None, None) == 1.0

    async def test_a_plain_sequence_can_be_awaited_in_a_loop(self) -> None:
        assert await Sequential(Fixed(0.5))(None, None) == 0.5
        assert await Sequential(FixedAsync(0.5), Sequential(Fixed(0.25)))(None, None) == 0.25
        assert await Sequential(FixedAsync(0.0), Fixed(0.25))(None, None) == 0.0

    async def test_gates_and_sums(self) -> None:
        assert Gate(Fixed(0.4), 0.5)(None, None) == 0.0
        assert await Gate(FixedAsync(0.6), 0.5)(None, None) == 0.6
        assert WeightedSum([Fixed(1.0), Fixed(0.0)], [0.25, 0.75])(None, None) == 0.25
        assert await WeightedSum([Fixed(1.0), FixedAsync(1.0)], [0.25, 0.75])(None, None) == 1.0

    async def test_the_first_error_of_a_sum_cancels_the_calls_that_go_on(self) -> None:
        waiting = Waiting()
        with pytest.raises(ValueError, match="no score"):
            await WeightedSum([waiting, FailingAsync()], [0.5, 0.5])(None, None)
        assert waiting.call is not None
        assert waiting.call.cancelling()

    async def test_weights_that_are_decimals(self) -> None:
        total = WeightedSum([Fixed(1.0), Fixed(0.0)], [Decimal("0.25"), Decimal("0.75")])  # type: ignore[list-item]
        assert total(None, None) == 0.25
        assert total.weights == [0.25, 0.75]

    def test_weights_that_are_no_numbers(self) -> None:
        with pytest.raises(TypeError, match=r"Expected a number as each weight, got \['1'\]"):
            WeightedSum([Fixed(1.0)], ["1"])  # type: ignore[list-item]

    @pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [float("nan"), 0.5]])
    def test_wrong_weights(self, weights: list[float]) -> None:
        with pytest.raises(ValueError, match=r"eights must sum|rubrics and weights must match"):
            WeightedSum([Fixed(1.0), Fixed(1.0)], weights)

    def test_lists_and_dictionaries(self) -> None:
        one, two = Fixed(1.0), Fixed(2.0)
        listed = RubricList([one])
        listed.append(two)
        keyed = RubricDict({"pong": one})
        keyed["chess"] = two
        assert (len(listed), listed[1], list(keyed), keyed["chess"], "go" in keyed) == (
            2,
            two,
            ["pong", "chess"],
            two,
            False,
        )
        with pytest.raises(NotImplementedError):
            keyed(None, None)


class TestBase:
    def test_names_and_weights(self) -> None:
        inner = WeightedSum({"a": Fixed(1.0), "b": Fixed(0.5)}, {"a": 0.5, "b": 0.5})
        root = WeightedSum({"style": inner, "gate": Gate(Fixed(0.2), 0.5)}, {"style": 0.4, "gate": 0.6})
        root(None, None)
        assert [name for name, _ in root.named_rubrics()] == ["style", "style.a", "style.b", "gate", "gate.rubric"]
        assert root.component_scores() == {
            "style": 0.75, "style.a": 1.0, "style.b": 0.5, "gate": 0.0, "gate.rubric": 0.2
        }  # fmt: skip
        assert root.total_weights() == {"style": 0.4, "style.a": 0.2, "style.b": 0.2, "gate": 0.6}
        assert root.get_rubric("style.a").last_score == 1.0
        with pytest.raises(KeyError, match=r"Rubric path not found: style\.c"):
            root.get_rubric("style.c")

    def test_cycles_are_refused(self) -> None:
        outer, inner = RubricDict(), RubricDict()
        outer["inner"] = inner
        with pytest.raises(ValueError, match="can't be a component of itself"):
            inner["outer"] = outer
        assert list(inner.named_rubrics()) == []

    def test_hooks(self) -> None:
        rubric, seen = Fixed(0.5), []
        rubric.register_forward_pre_hook(lambda own, action, observation: seen.append(action))
        rubric.register_forward_hook(lambda own, action, observation, score: seen.append(score))
        rubric("act", None)
        assert seen == ["act", 0.5]

    def test_a_hook_that_raises_names_the_component(self) -> None:
        root = WeightedSum({"one": Fixed(1.0), "two": Fixed(1.0)}, [0.5, 0.5])

        def hook(own: Rubric, action: Any, observation: Any, score: Any) -> None:
            raise OSError("the log is full")

        root.get_rubric("two").register_forward_hook(hook)
        with pytest.raises(OSError, match="the log is full") as raised:
            root(None, None)
        assert failed_component(raised.value, root) == "two"
        assert root.last_score is None

    async def test_an_async_hook_makes_calls_async(self) -> None:
        rubric, seen = Fixed(0.5), []

        async def hook(own: Rubric, action: Any, observation: Any, score: Any) -> None:
            seen.append(score)

        rubric.register_forward_hook(hook)
        assert await rubric(None, None) == 0.5
        assert seen == [0.5]

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "0.5", [0.5]])
    def test_what_is_no_score(self, score: Any) -> None:
        rubric = Fixed(score)
        with pytest.raises((TypeError, ValueError), match=r"Expected a (finite )?number from forward"):
            rubric(None, None)
        assert rubric.last_score is None

    async def test_a_score_is_of_the_step_in_which_it_is_known(self) -> None:
        root = WeightedSum({"a": Awaited()}, {"a": 1.0})
        futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
        late, early = [asyncio.ensure_future(root(future, None)) for future in futures]
        await asyncio.sleep(0)  # both have begun
        begun = tick()
        futures[1].set_result(0.5)
        assert await early == 0.5
        assert root.component_scores(begun) == {"a": 0.5}
        begun = tick()
        assert root.component_scores(begun) == {}
        futures[0].set_result(0.25)
        assert await late == 0.25
        assert root.component_scores(begun) == {"a": 0.25}

    def test_children_that_threads_add_at_the_same_time_are_all_listed(self) -> None:
        others: list[Rubric] = []

        def change_another(frame: FrameType, event: str, _argument: Any) -> Any:
            """Do as another thread does that runs between two operations of this one."""
            frame.f_trace_opcodes = "_child" in frame.f_code.co_name
            if event == "opcode":
                other = Sequential(Fixed(1.0))
                other.component_scores()
                other.second = Fixed(0.25)
                others.append(other)
            return change_another

        root = Sequential(Fixed(1.0))
        tracing = sys.gettrace()
        sys.settrace(change_another)
        try:
            root.another = Fixed(0.5)
            del root.another  # type: ignore[attr-defined]
        finally:
            sys.settrace(tracing)
        assert len(others) > 20
        for other in others:
            assert other.second(None, None) == 0.25  # type: ignore[attr-defined]
            assert other.component_scores() == {"second": 0.25}

    def test_a_copy_has_children_of_its_own(self) -> None:
        root = WeightedSum({"a": Fixed(0.5)}, {"a": 1.0})
        copied = copy.deepcopy(root)
        copied(None, None)
        assert (root.component_scores(), copied.component_scores()) == ({}, {"a": 0.5})

    def test_a_copy_of_one_that_has_scored_gives_its_own_scores(self) -> None:
        root = WeightedSum({"a": Fixed(0.5)}, {"a": 1.0})
        root(None, None)
        assert root.component_scores() == {"a": 0.5}
        copied = copy.deepcopy(root)
        begun = tick()
        copied(None, None)
        assert (root.component_scores(begun), copied.component_scores(begun)) == ({}, {"a": 0.5})


class TestTrajectory:
    def test_credit(self) -> None:
        rubric = Win(gamma=0.5)
        scores = [rubric("a", Observation(done=done)) for done in (False, False, True)]
        assert (scores, rubric.compute_step_rewards()) == ([0.0, 0.0, 1.0], [0.25, 0.5, 1.0])
        restored = Win(gamma=0.5)
        restored.load_episode_state(rubric.episode_state())
        assert restored.trajectory == rubric.trajectory
        rubric.reset()
        assert rubric.compute_step_rewards() == []
        with pytest.raises(ValueError, match="gamma must be"):
            Win(gamma=1.5)


class Scripted(LLMClient):
    def __init__(self, answer: str) -> None:
        super().__init__("http://localhost", 8000)
        self.answer = answer

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        return self.answer


class TestJudge:
    @pytest.mark.parametrize("answer", ["", "no idea", "0.2, or rather 0.8"])
    async def test_an_unreadable_verdict_is_an_error(self, answer: str) -> None:
        with pytest.raises(VerdictError, match="Expected one number"):
            await LLMJudge("{action}", Scripted(answer))("a", None)
        assert await LLMJudge("{action}", Scripted(answer), default_score=0.0)("a", None) == 0.0

    @pytest.mark.parametrize(
        ("answer", "score"),
        [("The score is 0.75 out of 1.", 0.75), ("0.5/1.0", 0.5), ("1 / 1", 1.0), ("I give 0.2 (0.2 out of 1)", 0.2)],
    )
    async def test_the_end_of_the_scale_is_no_second_score(self, answer: str, score: float) -> None:
        assert await LLMJudge("{action}", Scripted(answer))("a", None) == score

    @pytest.mark.parametrize("answer", ["7 out of 10", "7/10", "0.5 out of 1.5", "0.5/1.05"])
    async def test_another_scale_is_no_verdict(self, answer: str) -> None:
        with pytest.raises(VerdictError, match="Expected one number"):
            await LLMJudge("{action}", Scripted(answer))("a", None)

    async def test_a_judges_server_without_an_answer_is_an_error_and_no_score(self) -> None:
        server = JudgeServer([MALFORMED["an error in a 200"], "0.5", MALFORMED["HTML"]])
        with server.server:
            judge = LLMJudge("{action}", server.client(max_retries=1), default_score=0.0)
            assert await judge("a", None) == 0.5
            with pytest.raises(ModelAnswerError, match="got '<html>"):
                await judge("b", None)

    async def test_settings_are_restored(self) -> None:
        judge = LLMJudge("{action}", Scripted("SCORE=3"), normalize=False)
        assert judge.state_dict()["score_pattern"] is None
        judge.load_state_dict({"score_pattern": r"SCORE=(\d+)"})
        assert await judge("a", None) == 3.0
        other = LLMJudge("", Scripted("9"))
        other.load_state_dict(judge.state_dict())
        assert (other.prompt_template, other.normalize) == ("{action}", False)
        with pytest.raises(VerdictError, match="Expected one match of 'SCORE="):
            await other("a", None)
        with pytest.raises(re.error):
            LLMJudge("{action}", Scripted(""), score_pattern="(")

    async def test_a_pattern_and_the_record(self) -> None:
        judge = LLMJudge("Rate {action}", Scripted("I thought of 9 things. Score: 1.5"), score_pattern=r"Score: (\S+)")
        assert await judge("it", None) == 1.0
        assert judge.evidence() == {"prompt": "Rate it", "answer": "I thought of 9 things. Score: 1.5"}


class Say(Action):
    score: float = 1.0


class Graded(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        return float(1 / action.score)


class GradedAsync(Graded):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return float(1 / action.score)


class Game(Environment[Say, Observation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    graded: type[Rubric] = Graded

    def __init__(self) -> None:
        self.rubric = WeightedSum({"graded": self.graded(), "fixed": Fixed(1.0)}, {"graded": 0.5, "fixed": 0.5})

    def reset(self) -> Observation:
        self._reset_rubric()
        return Observation()

    def step(self, action: Say) -> Observation:
        observation = Observation()
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> State:
        return State()


class InlineGame(Game):
    BLOCKING = False


class JudgedGame(Game):
    """A plain step with an async rubric: it is waited for in the session's thread."""

    graded = GradedAsync


class AsyncGame(JudgedGame):
    async def step_async(self, action: Say) -> Observation:
        observation = Observation()
        observation.reward = await self._apply_rubric_async(action, observation)
        return observation


@pytest.mark.parametrize("environment", [Game, InlineGame, JudgedGame, AsyncGame])
def test_components_travel_and_errors_name_them(environment: type[Game]) -> None:
    with (
        RunningServer(create_fastapi_app(environment, Say, Observation)) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        client.reset()
        result = client.step({"score": 2.0})
        assert result.reward == 0.75
        assert result.metadata == {
            "reward_signals": {"graded": 0.5, "fixed": 1.0},
            "reward_weights": {"graded": 0.5, "fixed": 0.5},
        }
        with pytest.raises(OpenEnvError, match="The reward component 'graded' raised ZeroDivisionError"):
            client.step({"score": 0.0})
        assert client.step({"score": 1.0}).reward == 1.0
