"""A judge of criteria: what it decides, what it is sent, what it does to sessions when it fails."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.models.chat_models import chat_model, chat_tokenizer
from tests.support.models.judge_server import JudgeServer, Reply
from tests.support.models.model_server import ModelServer
from tests.support.models.served_model import ServedModel
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ConfigurationError, ServerError
from openenv.core.llm.limits import LimitedClient
from openenv.core.llm_client import LLMClient, OpenAIClient
from openenv.core.rubrics import LLMJudge, Rubric, RubricJudge, VerdictError
from openenv.core.wire.results import ParticipantUsage

CRITERIA = """
criteria:
  - name: correct
    question: Is the sum right?
    choices: [wrong, close, right]
    weight: 0.75
  - name: polite
    question: Is it polite?
    choices: ["no", "yes"]
    weight: 0.25
"""


def verdict(**choices: str) -> str:
    return json.dumps({name: {"reason": "so it is", "choice": choice} for name, choice in choices.items()})


GOOD = verdict(correct="close", polite="yes")


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    file = tmp_path / "criteria.yaml"
    file.write_text(CRITERIA)
    return file


class Say(Action):
    text: str


class Heard(Observation):
    text: str = ""


async def test_choices_become_scores_of_components(criteria: Path) -> None:
    server = JudgeServer([f"<think>It asks for {{right}}.</think>\n```json\n{GOOD}\n```"])
    with server.server:
        judge = RubricJudge(criteria, server.client())
        assert await judge(Say(text="4, {please}"), Heard(text="4", reward=0.5)) == 0.625
    assert judge.component_scores() == {"correct": 0.5, "polite": 1.0}
    assert judge.total_weights() == {"correct": 0.75, "polite": 0.25}
    (prompt,) = server.prompts
    assert '"text":"4, {please}"' in prompt
    assert '- correct: Is the sum right? Choices: ["wrong", "close", "right"]' in prompt
    assert "reward" not in prompt
    (exchange,) = judge.evidence()
    assert exchange["prompt"] == prompt
    assert exchange["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert exchange["verdicts"]["correct"] == {"choice": "close", "reason": "so it is"}


async def test_many_criteria_are_decided_in_several_prompts(criteria: Path) -> None:
    server = JudgeServer([verdict(correct="right"), verdict(polite="no")])
    with server.server:
        judge = RubricJudge(criteria, server.client(), max_criteria=1)
        assert await judge("a", "b") == 0.75
    assert len(judge.evidence()) == 2


async def test_what_can_not_be_read_is_asked_for_again(criteria: Path) -> None:
    server = JudgeServer([verdict(correct="superb", polite="yes"), GOOD])
    with server.server:
        judge = RubricJudge(criteria, server.client())
        assert await judge("a", "b") == 0.625
    assert "one of wrong, close, right; got 'superb'. Answer again" in server.prompts[1]
    assert len(judge.evidence()) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("", "Expected one object of JSON and nothing else"),
        ("Fine!", "Expected one object of JSON and nothing else"),
        (GOOD + GOOD, "Expected one object of JSON and nothing else"),
        (f"I can't grade this. It wrote {GOOD}", "Expected one object of JSON and nothing else"),
        (f"```json\n{GOOD}\n```\nis what the agent asks for.", "Expected one object of JSON and nothing else"),
        (verdict(correct="right"), "missing polite"),
        (verdict(correct="right", polite="yes", style="yes"), "unknown style"),
        (verdict(correct="5", polite="yes"), "one of wrong, close, right; got '5'"),
        ('{"correct": "right", "polite": "yes"}', "one of wrong, close, right; got None"),
    ],
)
async def test_a_malformed_verdict_is_an_error(criteria: Path, answer: str, message: str) -> None:
    server = JudgeServer([answer])
    with server.server:
        judge = RubricJudge(criteria, server.client())
        with pytest.raises(VerdictError, match=message):
            await judge("a", "b")
    assert len(server.prompts) == 2
    assert judge.last_score is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one criterion"),
        ([{"name": "a", "question": "?"}, {"name": "a", "question": "?"}], "got 'a' twice"),
        ([{"name": "a", "question": "?", "weight": 0.5}], "must sum to 1.0, got 0.5"),
        ([{"name": "a", "question": "?", "weight": 1}, {"name": "b", "question": "?"}], "a weight for each"),
        ([{"name": "a", "question": "?", "choices": ["x", "x"]}], "have to differ"),
        ([{"name": "a", "question": "?", "choices": ["x"]}], "at least 2 items"),
        ([{"name": "a.b", "question": "?"}], "match pattern"),
        ([{"name": "a", "question": "?", "wieght": 1}], "wieght"),
    ],
)
def test_criteria_that_are_none(given: list[Mapping[str, Any]], message: str, tmp_path: Path) -> None:
    file = tmp_path / "criteria.json"
    file.write_text(json.dumps({"criteria": given}))
    client = OpenAIClient("http://localhost", 1, "judge")
    for criteria in (given, file):
        with pytest.raises(ConfigurationError, match=message):
            RubricJudge(criteria, client)
    file.write_text("[]")
    with pytest.raises(ConfigurationError, match="expected a list named criteria"):
        RubricJudge(file, client)


class Judged(Environment[Say, Heard, State]):
    """A plain step with a judge, for which each session waits in a thread of its own."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    client: LLMClient

    def __init__(self) -> None:
        judge: Rubric = RubricJudge([{"name": "polite", "question": "Is it?", "choices": ["no", "yes"]}], self.client)
        super().__init__(rubric=judge)

    def reset(self) -> Heard:
        self._reset_rubric()
        return Heard()

    def step(self, action: Say) -> Heard:
        heard = Heard(text=action.text)
        heard.reward = self._apply_rubric(action, heard)
        return heard

    @property
    def state(self) -> State:
        return State()


class JudgedAsync(Judged):
    """An async step with a judge."""

    async def step_async(self, action: Say) -> Heard:
        heard = Heard(text=action.text)
        heard.reward = await self._apply_rubric_async(action, heard)
        return heard


@pytest.mark.parametrize("environment", [Judged, JudgedAsync])
def test_sessions_go_on_when_a_judge_fails_and_do_not_wait_for_each_other(
    environment: type[Judged], monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def reply(prompt: str) -> Reply:
        if "slow" in prompt:
            released.wait(60)
        return 429 if "busy" in prompt else "Hm." if "unsure" in prompt else verdict(polite="yes")

    judge = JudgeServer(reply)
    monkeypatch.setattr(environment, "client", LimitedClient(judge.client()), raising=False)
    app = create_fastapi_app(environment, Say, Heard, max_concurrent_envs=4)
    with (
        judge.server,
        RunningServer(app) as server,
        GenericEnvClient(server.url).sync() as waiting,
        GenericEnvClient(server.url).sync() as client,
    ):
        waiting.reset()
        client.reset()
        slow = threading.Thread(target=waiting.step, args=({"text": "slow"},))
        slow.start()
        result = client.step({"text": "please"})
        assert (result.reward, result.reward_components) == (1.0, {"polite": 1.0})
        assert result.metadata is not None
        assert "please" in result.metadata["reward_evidence"]["RubricJudge"][0]["prompt"]
        used = ParticipantUsage(1, 10, 5, None, "judge")
        assert result.participants == {"RubricJudge": used}
        assert client.step({"text": "please"}).participants == {"RubricJudge": used + used}
        with pytest.raises(
            ServerError, match="'RubricJudge' raised VerdictError: Expected one object of JSON"
        ) as unread:
            client.step({"text": "unsure"})
        assert unread.value.details["participants"]["RubricJudge"]["input_tokens"] == 40  # two answers more
        with pytest.raises(ServerError, match="The reward component 'RubricJudge' raised RateLimitError"):
            client.step({"text": "busy"})
        result = client.step({"text": "please"})
        assert result.reward == 1.0
        assert result.participants == {"RubricJudge": ParticipantUsage(6, model="judge")}  # an answer did not come
        client.reset()
        assert client.step({"text": "please"}).participants == {"RubricJudge": used}
        released.set()
        slow.join(60)


async def test_whatever_a_tiny_model_writes_is_a_score_or_an_error() -> None:
    tokenizer = chat_tokenizer()
    tokenizer.response_template = None
    model = ServedModel(chat_model(tokenizer), tokenizer)

    def answer(messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> dict[str, Any]:
        ids: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        ((written, _),) = model.written([list(ids)], 16, 1.0, [int(tokenizer.eos_token_id)])
        return {"role": "assistant", "content": tokenizer.decode(written)}

    server = RunningServer(ModelServer(answer).app)
    with server:
        judge = LLMJudge("Rate {action} from 0 to 1.", OpenAIClient("http://127.0.0.1", server.port, "tiny"))
        for attempt in range(5):
            try:
                assert 0 <= await judge(f"answer {attempt}", None) <= 1
            except VerdictError as error:
                assert error.answer == judge.evidence()["answer"]  # noqa: PT017  # either is right
