"""Rewards from elsewhere, each with the real library, and what each does with bad scores."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.scorer import Score, includes, match
from tests.support.models.chat_models import chat_tokenizer
from transformers import Qwen3Config, Qwen3ForSequenceClassification
from trl.rewards.format_rewards import think_format_reward

import openenv
from openenv import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ConfigurationError
from openenv.core.rewards import (
    CommandReward,
    EndpointReward,
    FunctionReward,
    InspectReward,
    ModelReward,
    Sample,
    VerifiersEpisodeReward,
    VerifiersGroupReward,
    VerifiersReward,
    sample_of,
)
from openenv.core.rubrics import WeightedSum


class Say(Action):
    answer: str


class Asked(Observation):
    prompt: str = "What is 2 + 2?"


def asked(**columns: Any) -> Asked:
    return Asked(metadata=columns)


class TestSamples:
    def test_the_usual_fields(self) -> None:
        assert sample_of(Say(answer="4"), asked(target=4)) == Sample("What is 2 + 2?", "4", "4", {"target": 4})
        assert sample_of("4", None) == Sample("", "4")

    def test_an_action_of_another_form(self) -> None:
        with pytest.raises(ConfigurationError, match="pass sample=, a function"):
            sample_of({"move": "up"}, asked())
        reward = FunctionReward(lambda completions, **_: [1.0], sample=lambda action, _: Sample("", action["move"]))
        assert reward({"move": "up"}, asked()) == 1.0


class TestFunctions:
    def test_a_function_of_trl_itself(self) -> None:
        reward = FunctionReward(think_format_reward, conversational=True)
        scores = [reward(Say(answer=text), asked()) for text in ("<think>\nhm\n</think>\n4", "4")]
        assert scores == [1.0, 0.0]

    def test_columns_are_lists_too(self) -> None:
        def right(prompts: list[str], completions: list[str], target: list[str], **_: Any) -> list[float]:
            return [float(one == other) for one, other in zip(completions, target, strict=True)]

        assert FunctionReward(right)(Say(answer="4"), asked(target="4")) == 1.0

    async def test_an_async_function(self) -> None:
        async def right(completions: list[str], **_: Any) -> list[float]:
            return [0.5]

        assert await FunctionReward(right)(Say(answer="4"), asked()) == 0.5

    @pytest.mark.parametrize("returned", [[], [1.0, 2.0], 1.0, "1", [None], [float("nan")]])
    def test_what_is_no_score(self, returned: Any) -> None:
        with pytest.raises((TypeError, ValueError), match=r"Expected a (list of one score|finite number|number)"):
            FunctionReward(lambda **_: returned)(Say(answer="4"), asked())


class TestInspect:
    async def test_its_scorers(self) -> None:
        reward = WeightedSum(
            {"number": InspectReward(match(numeric=True)), "words": InspectReward(includes())}, [0.5, 0.5]
        )
        assert await reward(Say(answer="It is 4"), asked(target="4")) == 1.0
        assert await reward(Say(answer="It is 5"), asked(target="4")) == 0.0
        assert reward.component_evidence()["number"]["answer"] == "5"

    async def test_a_scorer_with_several_values(self) -> None:
        async def both(state: Any, target: Any) -> Score:
            return Score(value={"style": 0.25, "right": "C"})

        assert await InspectReward(both, key="right")(Say(answer="4"), asked()) == 1.0
        with pytest.raises(ValueError, match="the values style, right; expected key= to be one"):
            await InspectReward(both)(Say(answer="4"), asked())

    async def test_a_scorer_without_a_score(self) -> None:
        async def none(state: Any, target: Any) -> None:
            return None

        with pytest.raises(ValueError, match="got none"):
            await InspectReward(none)(Say(answer="4"), asked())


class _Handler(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, bytes]]
    bodies: list[bytes]
    released: threading.Event

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/hangs":
            self.released.wait(60)
            return
        if self.path.startswith("/drips"):
            self._drip(b"HTTP/1.1 200 OK\r\nX-Drip: " if self.path == "/drips/head" else b"HTTP/1.1 200 OK\r\n\r\n")
            return
        status, text = self.answers[self.path]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/number")
        self.send_header("Content-Length", str(len(text) + (self.path == "/cut")))
        self.end_headers()
        self.wfile.write(text)

    def _drip(self, beginning: bytes) -> None:
        """Send byte by byte until the client closes the connection."""
        self.wfile.write(beginning)
        with suppress(ConnectionError):
            while not self.released.wait(0.02):
                self.wfile.write(b"0")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[_Handler]]]:
    answers = {
        "/number": (200, b"0.5"),
        "/object": (200, b'{"reward": 0.25, "why": "short"}'),
        "/text": (200, b"very good"),
        "/none": (200, b'{"rating": 1}'),
        "/nan": (200, b"NaN"),
        "/cut": (200, b"0.5"),
        "/busy": (429, b"later"),
        "/moved": (302, b""),
    }

    class Handler(_Handler):
        bodies: list[bytes] = []  # noqa: RUF012  # of this server alone
        released = threading.Event()

    Handler.answers = answers
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", Handler
        Handler.released.set()
        server.shutdown()
        thread.join(60)


class TestEndpoints:
    async def test_a_number_or_an_object(self, endpoint: tuple[str, type[_Handler]]) -> None:
        url, handler = endpoint
        assert await EndpointReward(f"{url}/number")(Say(answer="4"), asked()) == 0.5
        reward = EndpointReward(f"{url}/object")
        assert await reward(Say(answer="4"), asked(target="4")) == 0.25
        assert reward.evidence() == {"reward": 0.25, "why": "short"}
        assert b'"completion": "4", "target": "4"' in handler.bodies[-1]

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/text", "Expected JSON from"),
            ("/none", "Expected a number from"),
            ("/nan", "Expected a finite number"),
            ("/busy", "status 429: later"),
            ("/moved", "status 302"),
            ("/cut", "of 4 bytes only 3 were read"),
            ("/hangs", r"within 0\.2 s"),
        ],
    )
    async def test_what_is_no_score(self, endpoint: tuple[str, type[_Handler]], path: str, message: str) -> None:
        reward = EndpointReward(endpoint[0] + path, timeout_s=0.2 if path == "/hangs" else 60)
        with pytest.raises((ConnectionError, ValueError), match=message):
            await reward(Say(answer="4"), asked())

    @pytest.mark.parametrize("part", ["head", "body"])
    async def test_an_answer_byte_by_byte(self, endpoint: tuple[str, type[_Handler]], part: str) -> None:
        """The time bounds the whole call, and its thread is free afterwards: one more drips than there are threads."""
        url, _ = endpoint
        drips = [EndpointReward(f"{url}/drips/{part}", timeout_s=0.3)(Say(answer="4"), asked()) for _ in range(33)]
        for outcome in await asyncio.gather(*drips, return_exceptions=True):
            assert isinstance(outcome, ConnectionError)
            assert "within 0.3 s" in str(outcome)
        assert await EndpointReward(f"{url}/number")(Say(answer="4"), asked()) == 0.5

    async def test_an_endpoint_that_is_not_there(self) -> None:
        with pytest.raises(ConnectionError, match=r"Expected an answer of http://127\.0\.0\.1:9/"):
            await EndpointReward("http://127.0.0.1:9/")(Say(answer="4"), asked())
        with pytest.raises(ValueError, match="begins with http"):
            EndpointReward("file:///etc/passwd")


class _Crowd:
    """Scores once so many requests are under way, and counts connections."""

    def __init__(self, expected: int) -> None:
        self.connections = self.most = 0
        self._expected = expected
        self._full = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.most = max(self.most, self.connections)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        if self.connections == self._expected:
            self._full.set()
        await self._full.wait()
        self.connections -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n0.5")
        writer.close()


async def test_thousands_of_samples_at_once() -> None:
    """Each session has a rubric of its own; their sockets are bounded, and more than asyncio has threads."""
    crowd = _Crowd(32)
    async with await asyncio.start_server(crowd, "127.0.0.1", 0, backlog=256) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        scores = await asyncio.gather(*[EndpointReward(url)(Say(answer="4"), asked()) for _ in range(2000)])
    assert scores == [0.5] * 2000
    assert crowd.most == 32


class TestCommands:
    def test_tests_that_pass_and_fail(self) -> None:
        tests = "from answer import add\nassert add(2, 2) == 4, 'wrong'\n"
        reward = CommandReward(["python3", "test_answer.py"], files={"test_answer.py": tests})
        assert reward(Say(answer="def add(a, b):\n    return a + b\n"), asked()) == 1.0
        assert reward(Say(answer="def add(a, b):\n    return a\n"), asked()) == 0.0
        assert "AssertionError: wrong" in reward.evidence()["output"]
        assert reward.evidence()["exit_code"] == 1


class _VerifiersRubric:
    """Follows the protocol of verifiers' rubrics: weighted functions of the state, written into it."""

    def right(self) -> None: ...

    funcs = (right, right)
    weights = (0.5, 0.5)

    async def score_rollout(self, state: dict[str, Any]) -> None:
        right = float(state["completion"][-1]["content"] == state["answer"])
        if state["info"].get("reward", True):
            state["metrics"], state["reward"] = {"right": right, **state["info"].get("more", {})}, 0.5 * right


async def test_a_rubric_of_verifiers() -> None:
    reward = VerifiersReward(_VerifiersRubric())
    assert await reward(Say(answer="4"), asked(target="4")) == 0.5
    assert reward.component_scores() == {"right": 1.0}
    assert reward.total_weights() == {"right": 0.5}
    with pytest.raises(ValueError, match="to write a reward, got none"):
        await reward(Say(answer="4"), asked(reward=False))
    with pytest.raises(TypeError, match="Expected a number from forward, got 'high'"):
        await reward(Say(answer="4"), asked(more={"level": "high"}))


class _ConversationRubric:
    """Follows the protocol of verifiers' rubrics: scores a conversation, and compares those of a group."""

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []

    async def score_rollout(self, state: dict[str, Any]) -> None:
        self.states.append(state)
        said = [message["content"] for message in state["completion"] if message["role"] == "assistant"]
        state["metrics"] = {"right": float(said[-1] == state["answer"]), "turns": len(said)}
        state["reward"] = state["metrics"]["right"]

    async def score_group(self, states: list[dict[str, Any]]) -> None:
        lengths = [len(state["completion"][-1]["content"]) for state in states]
        for state, length in zip(states, lengths, strict=True):
            known = state["answer"] != "unknown"
            state["reward"] = float(length == max(lengths)) + state["info"].get("bonus", 0) if known else None


class Guessing(Environment[Say, Asked, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__(rubric=VerifiersEpisodeReward(_ConversationRubric(), gamma=0.5))

    async def reset(self) -> Asked:
        await self._reset_rubric_async()
        self.rubric.begin("Guess.")  # type: ignore[union-attr]
        return Asked(prompt="Guess.")

    async def step(self, action: Say) -> Asked:
        done = action.answer == "4"
        shown = Asked(prompt="" if done else "Higher.", done=done, metadata={"target": "4"})
        shown.reward = await self._apply_rubric_async(action, shown)
        return shown

    @property
    def state(self) -> State:
        return State()


def test_a_rubric_of_verifiers_scores_an_episode_of_several_turns() -> None:
    with openenv.make(Guessing).sync() as env:
        for _ in range(2):  # the turns of an episode are not the next one's
            env.reset()
            first = env.step(Say(answer="2"))
            assert (first.reward, first.done, first.reward_components) == (0.0, False, {})
            last = env.step(Say(answer="4"))
            assert (last.reward, last.reward_components) == (1.0, {"right": 1.0, "turns": 2.0})
            assert last.observation.metadata["step_rewards"] == [0.5, 1.0]


async def test_what_a_rubric_of_verifiers_reads_of_an_episode() -> None:
    rubric = _ConversationRubric()
    reward = VerifiersEpisodeReward(rubric, task="guessing")
    reward.begin("Guess.")
    assert reward(Say(answer="2"), Asked(prompt="Higher.")) == 0.0
    assert reward.compute_step_rewards() == []
    other = VerifiersEpisodeReward(rubric, task="guessing")  # as a fork, which goes on from a snapshot
    other.load_episode_state(json.loads(json.dumps(reward.episode_state())))
    for each in (reward, other):
        assert await each(Say(answer="4"), Asked(prompt="Right.", done=True, metadata={"target": "4"})) == 1.0
    for state in rubric.states:
        assert state["prompt"] == [{"role": "user", "content": "Guess."}]
        said = [(message["role"], message["content"]) for message in state["completion"]]
        assert said == [("assistant", "2"), ("user", "Higher."), ("assistant", "4")]
        assert (state["answer"], state["task"]) == ("4", "guessing")
    reward.reset()
    assert reward.episode_state() is None


@pytest.mark.parametrize("turns", [1, 2])
async def test_an_episode_whose_score_failed_has_no_step_rewards(turns: int) -> None:
    class Failing(_ConversationRubric):
        async def score_rollout(self, state: dict[str, Any]) -> None:
            raise RuntimeError("no judge")

    reward = VerifiersEpisodeReward(Failing())
    for _ in range(turns - 1):
        reward(Say(answer="2"), Asked(prompt="Higher."))
    with pytest.raises(RuntimeError, match="no judge"):
        await reward(Say(answer="4"), Asked(prompt="Right.", done=True, metadata={"target": "4"}))
    assert reward.compute_step_rewards() == []


def test_a_rubric_of_verifiers_compares_the_rollouts_of_a_group() -> None:
    reward = VerifiersGroupReward(_ConversationRubric())
    batch: dict[str, Any] = {
        "prompts": ["a", "a", "b", "b"],
        "completions": ["no", "yes", "x", ""],
        "trainer_state": object(),
    }
    assert reward(**batch, bonus=[1, 2, 3, 4]) == [1.0, 3.0, 4.0, 4.0]
    said = [[{"role": "assistant", "content": text}] for text in batch["completions"]]
    asked_for = [[{"role": "user", "content": text}] for text in batch["prompts"]]
    assert reward(prompts=asked_for, completions=said) == [0.0, 1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="score_group to write a finite reward, got None"):
        reward(**batch, answer=["x", "unknown", "y", "z"])
    with pytest.raises(ValueError, match="a finite reward, got nan"):
        reward(**batch, bonus=[1.0, float("nan"), 1.0, 1.0])


def test_groups_with_one_prompt_are_told_apart_by_their_number_of_rollouts() -> None:
    batch: dict[str, Any] = {"prompts": ["Play."] * 4, "completions": ["no", "yes", "x", ""]}
    assert VerifiersGroupReward(_ConversationRubric(), num_generations=2)(**batch) == [0.0, 1.0, 1.0, 0.0]
    assert VerifiersGroupReward(_ConversationRubric())(**batch) == [0.0, 1.0, 0.0, 0.0], "one group by its prompt"
    with pytest.raises(ValueError, match="whole groups of num_generations=3 rollouts, got 4 rollouts"):
        VerifiersGroupReward(_ConversationRubric(), num_generations=3)(**batch)
    with pytest.raises(ValueError, match="num_generations must be at least 1, got 0"):
        VerifiersGroupReward(_ConversationRubric(), num_generations=0)


@pytest.mark.parametrize("prompts", ["aab", "abb", "aabbbbcc"], ids=["the last cut", "the first cut", "two alike"])
def test_groups_that_prompts_do_not_tell_apart_are_refused(prompts: str) -> None:
    with pytest.raises(ValueError, match=r"Expected groups of one size, got [\d, ]+ neighbours with the same prompt"):
        VerifiersGroupReward(_ConversationRubric())(prompts=list(prompts), completions=list(prompts))


def _reward_model(vocabulary: int, outputs: int) -> Any:
    small: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_labels": outputs}
    model: Any = Qwen3ForSequenceClassification
    return model(Qwen3Config(vocab_size=vocabulary, pad_token_id=0, **small, **heads))


def test_a_reward_model_of_transformers(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer()
    _reward_model(len(tokenizer), 1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    reward = ModelReward(str(tmp_path))
    scores = [reward(Say(answer=text), asked()) for text in ("left", "right right", "left")]
    assert scores[0] == scores[2] != scores[1]
    with pytest.raises(ValueError, match="one output, got one with 3"):
        ModelReward(_reward_model(len(tokenizer), 3), tokenizer)
