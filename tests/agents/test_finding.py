"""Participants by a text."""

import pytest
from tests.support.models.judge_server import JudgeServer

from openenv.agents import Chat, ScriptedUser, find_participant
from openenv.core.exceptions import ConfigurationError

SHY = ScriptedUser(["..."])


def test_a_model_and_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    judge = JudgeServer(["4"])
    with judge.server:
        chat = Chat(find_participant(f"Qwen/Qwen3-8B@{judge.server.url}"))
        assert chat.send("Your move.").text == "4"
    assert chat.usage.model == "Qwen/Qwen3-8B"
    assert judge.keys == {"a-key"}


def test_one_by_its_module() -> None:
    assert find_participant(f"{__name__}:SHY") is SHY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nobody", r"Expected NAME@URL of a model, or module:name, got 'nobody'"),
        ("no_such_module:shy", "No module named 'no_such_module'"),
        ("json:no_such_name", "has no attribute 'no_such_name'"),
        ("string:digits", r"Expected string:digits to be a participant, with a method reply\(messages\), got str"),
        ("Qwen@localhost", "as in Qwen/Qwen3-8B@http://localhost:8000, but: Invalid endpoint URL"),
        ("@http://localhost", "Expected a model's name before its address, as in NAME@http://localhost"),
    ],
)
def test_what_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        find_participant(text)
