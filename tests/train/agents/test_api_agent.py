"""Episodes that a model plays behind an OpenAI-compatible address, against real servers on both sides."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import numpy as np
import openai
import pytest
from fastapi import Response
from tests.support.environments.training import CRASHING_SEEDS, FAILING_RESET_SEEDS, Climb, Stairs, StairsEnvironment
from tests.support.models.malformed_answers import BROKEN_OFF, MALFORMED, breaking_server, completion
from tests.support.models.model_server import Message, ModelServer
from tests.support.models.served_model import ServedModel
from tests.support.servers import RunningServer
from tests.support.spans import attributes, span_exporter

from openenv import NDArray
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ModelAnswerError, ServerExecutionError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.records.prices import TokenPrice
from openenv.train.agents.api_agent import ApiAgent
from openenv.train.agents.tiny import build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.episodes.budget import Budget
from openenv.train.episodes.played_episode import PlayedEpisode, Usage
from openenv.train.tools.environment_tools import EnvironmentTools

Client = SyncEnvClient[Any, Any, Any]
SEEDS = [{"seed": seed} for seed in range(12)]


@pytest.fixture
def stairs_client(stairs_server: RunningServer) -> Iterator[Client]:
    with GenericEnvClient(base_url=stairs_server.url, capacity_wait_s=30.0).sync() as client:
        yield client


def call(arguments: str, number: int = 0, name: str = "climb") -> dict[str, Any]:
    return {"id": f"call{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*arguments: str) -> Message:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [call(each, number) for number, each in enumerate(arguments)],
    }


def climb(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
    return calls('{"move": "up"}')


def play(
    client: Client, server: ModelServer, tasks: list[dict[str, Any]] = SEEDS, **settings: Any
) -> list[PlayedEpisode]:
    with RunningServer(server.app) as running:
        agent = ApiAgent("tiny", base_url=f"{running.url}/v1", **settings)
        return sorted(agent.episodes(client, tasks), key=lambda played: played.index)


def test_every_task_is_played_to_its_end_by_tool_calls(stairs_client: Client) -> None:
    server = ModelServer(climb)
    episodes = play(stairs_client, server, concurrency=4, system_prompt="Climb.", temperature=0.5, max_tokens=20)
    assert [played.index for played in episodes] == list(range(12))
    for seed, played in enumerate(episodes):
        height = 1 + seed % 4
        assert (played.episode.seed, played.episode.done, played.episode.error) == (seed, True, None)
        assert played.episode.reward == pytest.approx(sum(0.25 * step for step in range(1, height + 1)))
        assert [turn.action for turn in played.episode.turns] == ['climb {"move": "up"}'] * height
        roles = [message["role"] for message in played.messages]
        assert roles == ["system", "user", *(["assistant", "tool"] * height)]
        assert played.messages[0]["content"] == "Climb."
        assert played.messages[2]["tool_calls"][0]["function"]["arguments"] == {"move": "up"}
        assert played.messages[-1]["tool_call_id"] == "call0"
        assert f"of {height}" in played.messages[-1]["content"]
    assert server.at_once <= 4
    body = server.requests[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("tiny", 0.5, 20)
    assert body["tools"] == EnvironmentTools.of(stairs_client).schemas()
    answered = next(request for request in server.requests if request["messages"][-1]["role"] == "tool")
    assert answered["messages"][-2]["tool_calls"][0]["function"]["arguments"] == '{"move": "up"}'


def test_labels_of_a_task_are_kept_and_not_passed_to_its_reset(stairs_client: Client) -> None:
    task = {"seed": 1, "difficulty": 2, "group": "short"}
    (played,) = play(stairs_client, ModelServer(climb), [task])
    assert (played.episode.error, played.episode.parameters) == (None, task)


def test_spans_of_an_episode(stairs_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TELEMETRY", "1")
    exporter = span_exporter()
    exporter.clear()
    (played,) = play(stairs_client, ModelServer(climb), [{"seed": 0, "episode_id": "e0"}])
    spans = [span for span in exporter.get_finished_spans() if "gen_ai.operation.name" in attributes(span)]
    (episode,) = [span for span in spans if span.name == "invoke_agent tiny"]
    chats = [span for span in spans if span.name == "chat tiny"]
    calls = [span for span in spans if span.name == "execute_tool climb"]
    assert len(chats) == len(calls) == len(played.episode.turns)
    assert {attributes(span)["gen_ai.conversation.id"] for span in spans} == {"e0"}
    assert {span.parent and span.parent.span_id for span in (*chats, *calls)} == {episode.context.span_id}
    assert attributes(calls[0])["gen_ai.tool.call.id"] == "call0"
    assert attributes(chats[0])["gen_ai.usage.output_tokens"] == 5
    assert not [name for span in spans for name in attributes(span) if name.endswith("messages")]


def test_episodes_are_played_at_once(stairs_client: Client) -> None:
    together = threading.Barrier(4, timeout=60)

    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        if messages[-1]["role"] == "user":
            together.wait()  # passes only if four episodes ask at the same time
        return climb(messages, tools)

    assert len(play(stairs_client, ModelServer(answer), SEEDS[:4], concurrency=4)) == 4


def test_as_many_play_at_once_as_the_server_has_sessions_for() -> None:
    app = create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=2)
    with RunningServer(app) as server, GenericEnvClient(base_url=server.url).sync() as client:
        episodes = play(client, ModelServer(climb), concurrency=8)
    assert [played.index for played in episodes] == list(range(len(SEEDS)))
    assert all(played.episode.error is None for played in episodes)


def test_several_calls_of_an_answer_are_done_in_order_until_the_episode_is_over(stairs_client: Client) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        return calls('{"move": "wait"}', '{"move": "up"}', '{"move": "up"}', '{"move": "up"}')

    (played,) = play(stairs_client, ModelServer(answer), [{"seed": 1}])  # two steps high
    assert [turn.action for turn in played.episode.turns] == [
        'climb {"move": "wait"}',
        'climb {"move": "up"}',
        'climb {"move": "up"}',
    ]
    answers = [message for message in played.messages if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answers] == ["call0", "call1", "call2", "call3"]
    assert answers[3]["content"] == "The episode is over. No further action is taken."


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('{"move": "fall asleep"}', "No sleeping on the stairs."),
        ('{"move": "jump"}', "move"),
        ('{"move": ', "expected the arguments as an object"),
        ("[1]", "expected the arguments as an object"),
    ],
)
def test_a_call_that_is_none_is_told_to_the_model_and_counted(stairs_client: Client, wrong: str, told: str) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        return calls(wrong) if messages[-1]["role"] == "user" else climb(messages, tools)

    server = ModelServer(answer)
    (played,) = play(stairs_client, server, [{"seed": 0}])
    assert played.episode.illegal_actions == 1
    assert played.episode.done
    assert told in played.messages[2]["content"]
    # What is sent on is JSON, whatever came.
    sent = server.requests[-1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


def test_a_tool_that_there_is_not_is_told(stairs_client: Client) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        if messages[-1]["role"] == "user":
            return {"role": "assistant", "content": "hm", "tool_calls": [call("{}", name="fly")]}
        return climb(messages, tools)

    (played,) = play(stairs_client, ModelServer(answer), [{"seed": 0}])
    assert played.messages[2]["content"] == "There is no tool 'fly'; the tools are climb."
    assert played.messages[1]["content"] == "hm"


def test_an_answer_without_a_call_ends_the_episode(stairs_client: Client) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        return {"role": "assistant", "content": "I stay here."}

    (played,) = play(stairs_client, ModelServer(answer), [{"seed": 0}])
    assert (played.episode.done, played.episode.error, played.episode.turns) == (False, None, [])
    assert played.messages[-1] == {"role": "assistant", "content": "I stay here."}


def test_turns_are_limited(stairs_client: Client) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        return calls('{"move": "wait"}', '{"move": "wait"}')

    (played,) = play(stairs_client, ModelServer(answer), [{"seed": 0}], max_turns=3)
    assert (len(played.episode.turns), played.episode.done) == (3, False)


def test_actions_as_text(stairs_client: Client) -> None:
    said = iter(["nonsense", "fall asleep", "up"])

    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        assert not tools
        return {"role": "assistant", "content": next(said)}

    server = ModelServer(answer)
    (played,) = play(stairs_client, server, [{"seed": 0}], actions="text", instructions="Say up.")
    assert [turn.action for turn in played.episode.turns] == ["nonsense", "fall asleep", "up"]
    assert played.episode.illegal_actions == 2
    assert played.episode.done
    goal, _, rest = played.messages[0]["content"].partition("\n")
    assert goal.startswith("You act in the environment StairsEnvironment. ")
    assert rest == "Say up.\n\nstep of 1"
    assert played.messages[2]["content"].startswith("That was no legal action: expected one of up, wait, fall asleep")
    assert played.messages[4]["content"] == "That was no legal action: No sleeping on the stairs.\n\nstep of 1"
    assert played.tools == []
    assert all("tools" not in request for request in server.requests)


def test_a_failing_environment_spoils_only_its_own_episode(stairs_client: Client) -> None:
    tasks = [{"seed": CRASHING_SEEDS + 3}, {"seed": FAILING_RESET_SEEDS}, {"seed": 3}]
    crashed, closed, whole = play(stairs_client, ModelServer(climb), tasks, concurrency=1)
    assert isinstance(crashed.episode.error, ServerExecutionError)
    assert len(crashed.episode.turns) == 1
    assert isinstance(closed.episode.error, ServerExecutionError)
    assert closed.messages == []
    assert (whole.episode.error, whole.episode.done) == (None, True)


def test_a_conversation_that_has_grown_too_long_is_cut_off(stairs_client: Client) -> None:
    tokenizer = build_tool_tokenizer(EnvironmentTools.of(stairs_client).schemas(), ["step and of 1 2 3 4"])
    model = ServedModel(build_model(tokenizer), tokenizer)

    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        model(messages, tools)  # refuses once there is no room
        return calls('{"move": "wait"}')

    model.max_context = 60
    (played,) = play(stairs_client, ModelServer(answer, model), [{"seed": 0}], max_turns=50)
    assert 1 <= len(played.episode.turns) < 50
    assert (played.episode.done, played.episode.error) == (False, None)


def test_the_tiny_model_behind_the_api(stairs_client: Client) -> None:
    tokenizer = build_tool_tokenizer(EnvironmentTools.of(stairs_client).schemas(), ["step and of 1 2 3 4"])
    model = ServedModel(build_model(tokenizer), tokenizer)
    episodes = play(stairs_client, ModelServer(model, model), SEEDS[:6], max_turns=4)
    assert len(episodes) == 6
    assert all(played.messages[1]["role"] == "assistant" for played in episodes)
    assert all(played.episode.error is None for played in episodes)


@pytest.mark.parametrize(
    ("budget", "limit", "answers"),
    [
        (Budget(max_answers=2), "max_answers", 2),
        (Budget(max_episode_tokens=16), "max_episode_tokens", 2),  # 15 in the first answer, 35 in the second
        (Budget(max_seconds=1e-9), "max_seconds", 0),
        (Budget(max_price=0.5), "max_price", 2),  # the server reports 0.25 for each answer
    ],
)
def test_a_limit_of_the_budget_ends_an_episode_with_its_reward(
    stairs_client: Client, budget: Budget, limit: str, answers: int
) -> None:
    server = ModelServer(climb)
    (played,) = play(stairs_client, server, [{"seed": 3}], budget=budget)  # four steps high
    episode = played.episode
    assert (episode.cut_by, episode.done, episode.error) == (limit, False, None)
    assert (len(episode.turns), episode.answers_without_call) == (answers, 0)
    assert episode.reward == pytest.approx(sum(0.25 * step for step in range(1, answers + 1)))


def test_the_price_of_tokens_is_the_one_that_is_named(stairs_client: Client) -> None:
    (played,) = play(stairs_client, ModelServer(climb), [{"seed": 1}], price=TokenPrice(input=100, output=1000))
    assert played.usage is not None
    assert (played.usage.input_tokens, played.usage.output_tokens) == (40, 10)
    assert played.usage.cost_usd == pytest.approx(0.014)


def test_an_answer_that_takes_too_long_is_given_up(stairs_client: Client) -> None:
    released = threading.Event()

    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        if len(messages) > 1:
            released.wait(60)
        return climb(messages, tools)

    with RunningServer(ModelServer(answer).app) as running:
        agent = ApiAgent("tiny", base_url=f"{running.url}/v1", budget=Budget(max_seconds=5))
        try:
            (played,) = agent.episodes(stairs_client, [{"seed": 3}])
        finally:
            released.set()
    assert (played.episode.cut_by, len(played.episode.turns), played.episode.reward) == ("max_seconds", 1, 0.25)
    assert played.usage == Usage(10, 5, None, "tiny"), "what the answer under way costs is not known"


def test_a_server_that_is_not_there_is_an_error(stairs_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "DEFAULT_MAX_RETRIES", 0)
    with pytest.raises(ConnectionFailedError, match=r"There is no answer from http://127\.0\.0\.1:9/v1"):
        list(ApiAgent("tiny", base_url="http://127.0.0.1:9/v1").episodes(stairs_client, SEEDS))


def answers_of_high_stairs(malformed: Response, times: int) -> Callable[..., Message | Response]:
    """Answers that are malformed, so many times, in the episode with four steps, and climb in the others."""
    left = iter([malformed] * times)

    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message | Response:
        is_high = "of 4" in messages[0]["content"]
        return next(left, climb(messages, tools)) if is_high else climb(messages, tools)

    return answer


@pytest.mark.parametrize("named", ["no choices", "HTML", "a call without a name"])
def test_a_malformed_answer_is_requested_again(stairs_client: Client, named: str) -> None:
    server = ModelServer(answers_of_high_stairs(MALFORMED[named], 1))
    episodes = play(stairs_client, server, SEEDS[:4], concurrency=4)
    assert [(played.episode.done, played.episode.error) for played in episodes] == [(True, None)] * 4
    assert len(server.requests) == 1 + sum(len(played.episode.turns) for played in episodes)


@pytest.mark.parametrize("named", ["null choices", "an error in a 200", "nothing", "half of a JSON text"])
def test_malformed_answers_are_the_failure_of_their_episode_alone(stairs_client: Client, named: str) -> None:
    server = ModelServer(answers_of_high_stairs(MALFORMED[named], 3))
    *others, high = play(stairs_client, server, SEEDS[:4], concurrency=4)
    assert isinstance(high.episode.error, ModelAnswerError)
    assert (high.episode.turns, [message["role"] for message in high.messages]) == ([], ["user"])
    assert [(played.episode.done, played.episode.error) for played in others] == [(True, None)] * 3


@pytest.mark.parametrize("sent", BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_answers_that_are_broken_off_are_failures_of_their_episodes(stairs_client: Client, sent: bytes) -> None:
    with breaking_server(sent) as address:
        episodes = list(ApiAgent("tiny", base_url=address).episodes(stairs_client, SEEDS[:2]))
    assert len(episodes) == 2
    for played in episodes:
        assert isinstance(played.episode.error, ModelAnswerError)
        assert str(played.episode.error).startswith(f"{address}/ breaks its answers off, again and again: ")


def test_a_failure_inside_the_models_server_is_that_of_its_episode(stairs_client: Client) -> None:
    server = ModelServer(answers_of_high_stairs(Response(status_code=500), 3))
    *others, high = play(stairs_client, server, SEEDS[:4], concurrency=4)
    assert isinstance(high.episode.error, ModelAnswerError)
    assert [played.episode.done for played in others] == [True] * 3


def test_half_an_emoji_goes_to_the_environment_and_back_to_the_model(stairs_client: Client) -> None:
    cut = completion({**calls('{"move": "\\ud83d"}', '{"move": "\ud83d'), "content": "\ud83d"})
    server = ModelServer(lambda messages, tools: cut if len(messages) == 1 else climb(messages, tools))
    (played,) = play(stairs_client, server, [{"seed": 0}])
    assert [turn.action for turn in played.episode.turns[:2]] == ['climb {"move": "?"}', 'climb {"move": "?']
    assert (played.episode.illegal_actions, played.episode.done) == (2, True)
    assert server.requests[-1]["messages"][1]["content"] == "?"


def test_a_server_that_refuses_is_an_error(stairs_client: Client) -> None:
    with RunningServer(ModelServer(climb).app) as running:
        agent = ApiAgent("tiny", base_url=f"{running.url}/v2")
        with pytest.raises(ConfigurationError, match=r"The server of tiny at .*/v2/ answers: "):
            list(agent.episodes(stairs_client, SEEDS))


def test_leaving_early_ends_what_is_under_way(stairs_client: Client, stairs_server: RunningServer) -> None:
    with RunningServer(ModelServer(climb).app) as running:
        playing = ApiAgent("tiny", base_url=f"{running.url}/v1").episodes(stairs_client, SEEDS)
        next(playing)
        playing.close()  # type: ignore[attr-defined]
    stairs_server.wait_for_sessions(0)


def test_no_tasks_are_no_episodes(stairs_client: Client) -> None:
    assert play(stairs_client, ModelServer(climb), []) == []


@pytest.mark.parametrize("wrong", [{"actions": "moves"}, {"concurrency": 0}, {"max_turns": 0}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Expected"):
        ApiAgent("tiny", base_url="http://127.0.0.1:9/v1", **wrong)


class Look(Action):
    """Look to a side."""

    side: Literal["left", "right"]


class View(Observation):
    """What is seen there."""

    side: str
    screenshot: Annotated[np.ndarray[Any, Any], NDArray("uint8", (32, 32, 3), picture=True)]
    cells: list[list[list[int]]] = [[[8, 5, 2]] * 64] * 64


class ViewEnvironment(Environment[Look, View, State]):
    """Shows a picture each time."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def reset(self) -> View:
        self._steps = 0
        return self._seen("ahead")

    def step(self, action: Look) -> View:
        self._steps += 1
        return self._seen(action.side)

    def _seen(self, side: str) -> View:
        return View(side=side, screenshot=np.full((32, 32, 3), 9, np.uint8), done=self._steps == 2, reward=0.5)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


@pytest.mark.parametrize("actions", ["tools", "text"])
def test_pictures_are_passed_on(actions: Literal["tools", "text"]) -> None:
    def answer(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        if not tools:
            return {"role": "assistant", "content": "left"}
        look = call('{"side": "left"}', name=tools[0]["function"]["name"])
        return {"role": "assistant", "content": "", "tool_calls": [look]}

    model = ModelServer(answer)
    with (
        RunningServer(create_fastapi_app(ViewEnvironment, Look, View, max_concurrent_envs=4)) as server,
        GenericEnvClient(base_url=server.url, capacity_wait_s=30.0).sync() as client,
    ):
        (played,) = play(client, model, [{}], actions=actions)
    assert (played.episode.done, played.episode.reward) == (True, 1.0)
    first, second = (request["messages"] for request in model.requests)
    for message in (first[0], second[-1]):
        assert message["role"] == "user"
        (picture,) = [block for block in message["content"] if block["type"] == "image_url"]
        assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    texts = json.dumps([first[0], second[-2:]])
    assert "ahead" in texts
    assert "left" in texts
    assert [turn.observation.partition("\n")[0] for turn in played.episode.turns] == ["side ahead", "side left"]
    assert "screenshot" not in texts
    assert "cells [[[8, 5, 2]" in texts


class CutModel(ModelServer):
    """Ends each answer at its limit of tokens."""

    def chat(self, body: dict[str, Any]) -> Any:
        answer = super().chat(body)
        answer["choices"][0]["finish_reason"] = "length"
        return answer


def test_answers_that_end_at_their_limit_of_tokens_are_counted(stairs_client: Client) -> None:
    played = play(stairs_client, CutModel(climb), [{"seed": 2}])
    assert [(each.episode.cut_answers, len(each.episode.turns)) for each in played] == [(3, 3)]
