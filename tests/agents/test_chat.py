"""Conversations with participants: scripts, and models behind an address."""

import json
from collections.abc import Iterator, Sequence

import pytest
from tests.support.models.judge_server import JudgeServer

from openenv.agents import (
    Chat,
    Message,
    ModelPlayer,
    ModelUser,
    ParticipantFailedError,
    ParticipantUsage,
    Reply,
    ScriptedUser,
    participants_metadata,
)
from openenv.core.exceptions import ClientModeError
from openenv.core.llm.limits import LimitedClient
from openenv.core.llm_client import LLMClient

GUEST = "You want a table for four."


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    judge = JudgeServer(["<think>Say little.</think>A table, please.", "For four. [end] Bye."])
    with judge.server:
        yield judge


def test_a_script_ends_with_its_last_message() -> None:
    chat = Chat(ScriptedUser(["A table, please.", "For four."]))
    assert chat.send() == Reply("A table, please.")
    assert chat.send("For how many?") == Reply("For four.", ends=True)
    with pytest.raises(ParticipantFailedError, match=r"'user' failed: the script has 2 messages, and none is left"):
        chat.send("When?")
    assert [message["content"] for message in chat.messages] == ["A table, please.", "For how many?", "For four."]
    assert participants_metadata([chat]) == {
        "participants": {"user": {"replies": 2, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "model": None}}
    }


def test_a_function_is_a_script() -> None:
    def answer(messages: Sequence[Message]) -> str | Reply:
        return Reply("Bye.", ends=True) if messages[-1]["content"] == "Bye?" else f"{len(messages)}"

    chat = Chat(ScriptedUser(answer))
    assert [chat.send("one").text, chat.send("two").text, chat.send("Bye?").ends] == ["1", "3", True]


async def test_a_model_plays_a_user(server: JudgeServer) -> None:
    client = LimitedClient(server.client(), prices=(1.0, 2.0))
    chat = Chat(ModelUser(client, GUEST), "guest")
    assert (await chat.send_async()).text == "A table, please."
    reply = await chat.send_async("For how many?")
    assert (reply.text, reply.ends) == ("For four.", True)
    assert chat.usage == ParticipantUsage(2, 20, 10, 4e-5, "judge")
    first, second = server.requests
    system, begin = first["messages"]
    assert system["role"] == "system"
    assert GUEST in system["content"]
    assert "write [end] and nothing after it" in system["content"]
    assert begin["role"] == "user"
    roles = [(message["role"], message["content"]) for message in second["messages"][2:]]
    assert roles == [("assistant", "A table, please."), ("user", "For how many?")]


def test_a_model_plays_for_code_that_blocks(server: JudgeServer) -> None:
    chat = Chat(ModelPlayer(server.client(), "Play."))
    assert chat.send("Your move.").text == "A table, please."
    assert [message["content"] for message in server.requests[0]["messages"]] == ["Play.", "Your move."]


async def test_a_thread_with_an_event_loop_must_not_block() -> None:
    with pytest.raises(ClientModeError, match="await send_async"):
        Chat(ScriptedUser(["one"])).send()


async def test_a_failure_leaves_the_conversation_as_it_was(server: JudgeServer) -> None:
    server.reply = [500, "", "Here I am."]
    chat = Chat(ModelPlayer(server.client()), "opponent")
    with pytest.raises(ParticipantFailedError, match="'opponent' failed: Error code: 500") as failed:
        await chat.send_async("Your move.")
    assert failed.value.participant == "opponent"
    with pytest.raises(ParticipantFailedError, match="Expected a message, got an empty one"):
        await chat.send_async("Your move.")
    assert chat.usage.replies == 1, "an empty message was written and counted"
    assert chat.messages == []
    assert (await chat.send_async("Your move.")).text == "Here I am."


async def test_a_client_without_conversations_is_a_participant_that_fails() -> None:
    class Plain(LLMClient):
        async def complete(self, prompt: str, **kwargs: object) -> str:
            return "4"

    with pytest.raises(ParticipantFailedError, match="Plain does not support tool calling"):
        await Chat(ModelPlayer(Plain("http://localhost", 8000))).send_async("Your move.")


def test_a_snapshot_continues_elsewhere(server: JudgeServer) -> None:
    chat = Chat(ModelUser(server.client(), GUEST))
    chat.send()
    snapshot = json.loads(json.dumps(chat.snapshot()))
    twin = Chat(ModelUser(server.client(), GUEST))
    twin.restore(snapshot)
    assert twin.messages == chat.messages
    assert twin.send("For how many?").text == "For four."
    assert (chat.usage.replies, twin.usage.replies) == (1, 2)
