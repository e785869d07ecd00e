"""TRL's asynchronous worker, as it is released, over sessions whose agents have a loop of their own."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from queue import Empty
from threading import Thread
from typing import Any

import pytest
from accelerate import PartialState  # type: ignore[import-untyped]
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.models.chat_models import chat_tokenizer
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import qwen2_5_chat_template

from openenv.core.harness import (
    Message,
    ResourceSession,
    ResourceSessionFactory,
    ToolResult,
    TrainableSession,
    TrainingTrace,
    TrainingTurn,
    VerifyResult,
)
from openenv.core.wire.mcp_types import Tool

GROUP = 4


class CapturedSession(ResourceSession):
    """An agent that has played two turns: the first answer's token is its reward's."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number
        self.closed = False

    def initial_messages(self) -> list[Message]:
        return []

    def list_tools(self) -> list[Tool]:
        return []

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        raise KeyError(name)

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        if self._number == 1:
            raise TimeoutError("the agent has not ended")
        return 0

    def fetch_training_trace(self) -> TrainingTrace:
        first, second = [1, 2], [1, 2, 10 + self._number, 3]
        return TrainingTrace(
            turns=[
                self._turn("n0", first, [10 + self._number]),
                self._turn("n1", second, [20 + self._number, 30]),
            ]
        )

    def _turn(self, node_id: str, prompt: list[int], sampled: list[int]) -> TrainingTurn:
        message = {"role": "assistant", "content": "done"}
        return TrainingTurn(
            node_id=node_id,
            prompt_token_ids=prompt,
            completion_token_ids=sampled,
            per_token_logps=[-0.5] * len(sampled),
            loss_mask=[0] * len(prompt) + [1] * len(sampled),
            request={"messages": [{"role": "user", "content": "Play."}]},
            response={"choices": [{"message": message, "finish_reason": "stop"}]},
        )

    def verify(self, transcript: list[Message], final_state: Any = None) -> VerifyResult:
        return VerifyResult(env_reward=None if self._number == GROUP - 1 else float(self._number), done=True)

    def close(self) -> None:
        self.closed = True


class CapturedSessions(ResourceSessionFactory[CapturedSession]):
    """Opens the sessions of one group after the other."""

    def __init__(self, *, sampling: dict[str, Any]) -> None:
        self.sampling = sampling
        self.opened: list[CapturedSession] = []
        self._of_seed = Counter[int]()

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> CapturedSession:
        assert seed is not None
        assert episode_id is not None
        session = CapturedSession(seed, self._of_seed[seed])
        self._of_seed[seed] += 1
        self.opened.append(session)
        return session


class Worker:
    """The worker's loop in a thread of this process, and what it gives a trainer."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        from trl.experimental.async_grpo.openenv_harness import HarnessRolloutWorker

        PartialState()  # as in the worker's process; its log needs it
        context = multiprocessing.get_context("spawn")
        self.samples: Any = context.Queue()
        self.failures: Any = context.Queue(maxsize=1)
        self._failed = context.Event()
        self.loop: Any = HarnessRolloutWorker._loop_cls(
            model_name="tiny",
            dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "Play."}]}]),
            reward_funcs=[],
            processing_class=tokenizer,
            eos_token_ids=[0],
            rollout_buffer=self.samples,
            model_version_value=context.Value("i", 0),
            heartbeat_value=context.Value("d", 0.0),
            failed_event=self._failed,
            exception_info_queue=self.failures,
            metrics_queue=context.Queue(),
            num_generations=GROUP,
            max_inflight_tasks=1,
            harness_session_factory=CapturedSessions,
        )
        self._thread = Thread(target=self.loop.run)
        self._thread.start()

    def next_sample(self) -> Any:
        while self._thread.is_alive():
            try:
                return self.samples.get(timeout=0.1)
            except Empty:
                continue
        raise AssertionError(f"the worker has ended: {self.failures.get()}")

    def stop(self) -> None:
        """End the loop, whose last put may wait for room."""
        if self._thread.is_alive():
            self.loop._loop.call_soon_threadsafe(self.loop._stop_event.set)
        while self._thread.is_alive():
            try:
                self.samples.get(timeout=0.1)
            except Empty:
                continue
        self._thread.join()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    made = Worker(chat_tokenizer(qwen2_5_chat_template))
    yield made
    made.stop()


def test_a_captured_session_can_be_trained_on() -> None:
    assert isinstance(CapturedSession(0, 0), TrainableSession)


def test_the_tokens_of_agents_with_a_loop_of_their_own_reach_the_trainer(worker: Worker) -> None:
    samples = [worker.next_sample() for _ in range(GROUP - 1)]

    assert worker.loop._factory.sampling["temperature"] == 1.0
    assert worker.failures.empty()
    by_answer = {int(sample.input_ids[2]) - 10: sample for sample in samples}
    # The episode without a reward is in no baseline, and is no sample.
    assert by_answer.keys() == {0, 1, 2}
    for number, sample in by_answer.items():
        assert list(sample.input_ids) == [1, 2, 10 + number, 3, 20 + number, 30]
        assert list(sample.completion_mask) == [0, 0, 1, 0, 1, 1]
    assert by_answer[1].advantage == pytest.approx(0.0, abs=1e-6)
    assert by_answer[0].advantage == pytest.approx(-by_answer[2].advantage)
