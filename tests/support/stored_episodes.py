"""Episodes to store: one of an environment alone, one of a model that calls tools, and one that failed."""

from typing import Any

from openenv.traces import Conversation, Entry, Episode, EpisodeRecord, Score

PICTURE = "QUJD" * 1000
CALLS = [{"id": "call00001", "type": "function", "function": {"name": "guess", "arguments": {"word": "mouse"}}}]
TOOL = {
    "type": "function",
    "function": {"name": "guess", "description": "Guess.", "parameters": {"type": "object", "properties": {}}},
}


def episode(number: int = 0, **changes: Any) -> Episode:
    known: dict[str, Any] = {
        "id": f"1-{number + 1}",
        "environment": "counter",
        "version": "1",
        "session": f"s{number}",
        "transport": "v1",
        "started_at": 1000.0 + number // 2,  # two at a time
        "ended_at": 2000.0,
        "episode_id": f"e{number}",
        "seed": str(number),
        "split": None,
        "index": None,
        "steps": 1,
        "reward": float(number),
        "ending": "done",
        "error": None,
        "parent": None,
    }
    return Episode(**{**known, **changes})


def entries(count: int = 2, observation: Any = 0) -> list[Entry]:
    kinds = ["reset", *["step"] * (count - 1)]
    answer = {"observation": observation, "reward": 1.0, "done": False}
    return [Entry(kind, 1.0, 0.5, {"number": number}, answer, False) for number, kind in enumerate(kinds)]


def of_an_environment() -> EpisodeRecord:
    """An episode with a picture and components of its reward."""
    signals = {"reward_signals": {"right": 1.0, "short": 0.5}, "reward_weights": {"right": 1.0}}
    return EpisodeRecord(
        episode(0, reward=1.0),
        [
            Entry(
                "reset", 1000.0, 0.01, {"seed": 0}, {"observation": {"ball": 3, "png": PICTURE}, "done": False}, False
            ),
            Entry(
                "step",
                1000.5,
                0.02,
                {"move": "left"},
                {"observation": {"ball": 2, "png": PICTURE}, "reward": 1.0, "done": True, "metadata": signals},
                False,
            ),
        ],
        scores=[Score("brief", 3.0, 0.25, [0.25], {"length": 0.25})],
    )


def of_a_model() -> EpisodeRecord:
    """An episode in which a model called a tool, with its tokens."""
    request = {"type": "call_tool", "tool_name": "guess", "arguments": {"word": "mouse"}}
    answer = {"observation": {"text": "right"}, "reward": 1.0, "done": True}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Which word?"},
        {"role": "assistant", "content": "", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "call00001", "name": "guess", "content": "right"},
    ]
    conversation = Conversation(
        "e1",
        messages=messages,
        tools=[TOOL],
        model="tiny",
        model_version="20",
        sampling={"temperature": 1.0},
        prompt_ids=[5, 6],
        completion_ids=[7, 8, 9],
        logprobs=[-0.5, -0.25, 0.0],
        env_mask=[1, 1, 0],
        input_tokens=2,
        output_tokens=2,
        cost_usd=0.5,
        took_s=0.75,
    )
    return EpisodeRecord(
        episode(1, environment="wordle", split="train", index="4"),
        [
            Entry("reset", 1001.0, 0.01, {"seed": 1}, {"observation": {"text": "Which word?"}, "done": False}, False),
            Entry("step", 1001.5, 0.02, request, answer, False),
        ],
        [conversation],
    )


def of_a_failure() -> EpisodeRecord:
    """An episode that ended with an error."""
    error = {"message": "It broke.", "code": "EXECUTION_ERROR"}
    return EpisodeRecord(
        episode(2, reward=None, ending="closed", error="EXECUTION_ERROR", steps=0),
        [
            Entry("reset", 1002.0, 0.01, {}, {"observation": {"ball": 1}, "done": False}, False),
            Entry("step", 1002.5, 0.0, {"move": "up"}, error, True),
        ],
    )
