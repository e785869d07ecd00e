from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider
from textarena_env import TextArenaAction, TextArenaEnv, TextArenaMessage
from textarena_env.rewards import extract_feedback_counts, extract_guess, extract_wordle_feedback


def make_user_prompt(prompt: str, messages: list[TextArenaMessage]) -> str:
    """What TRL's guide leaves to its reader: a prompt from one observation."""
    return prompt + "\n" + "\n".join(message.content for message in messages)


def rollout_once(env: Any, completions: Iterator[str], max_turns: int) -> dict[str, list[object]]:
    """The rollout of TRL's guide, with completions in the place of the trainer's model."""
    result = env.reset()
    observation = result.observation
    prompts: list[object] = []
    correct_scores: list[object] = []
    green_scores: list[object] = []
    yellow_scores: list[object] = []
    for _turn in range(max_turns):
        if result.done:
            break
        base_prompt = observation.prompt or "dataset prompt"
        prompts.append(make_user_prompt(base_prompt, observation.messages))
        guess = extract_guess(next(completions))
        result = env.step(TextArenaAction(message=guess))
        observation = result.observation
        correct_scores.append(float(result.reward or 0.0))
        feedback = extract_wordle_feedback(observation)
        if not feedback:
            green_score, yellow_score = 0.0, 0.0
        else:
            green_count, yellow_count = extract_feedback_counts(feedback)
            green_score, yellow_score = green_count / 5.0, yellow_count / 5.0
        green_scores.append(green_score)
        yellow_scores.append(yellow_score)
    return {"prompts": prompts, "correct": correct_scores, "green": green_scores, "yellow": yellow_scores}


class WordleTool:
    """The way in which TRL's scripts read a transcript: what is new is what comes after what they have."""

    def __init__(self, client: TextArenaEnv) -> None:
        self.client = client.sync()

    def reset(self) -> str:
        self._seen = self.client.reset(seed=11).observation.messages[0].content
        return self._seen

    def guess(self, guess: str) -> str:
        whole = self.client.step(TextArenaAction(message=guess)).observation.messages[0].content
        new, self._seen = whole[len(self._seen) :], whole
        return new


@contextmanager
def server(**variables: str) -> Iterator[str]:
    with LocalProcessProvider("textarena", env_vars=variables) as running:
        running.wait_for_ready()
        yield running.base_url


def test_the_guide_s_rollout_runs(textarena_url: str) -> None:
    env: Any = TextArenaEnv(base_url=textarena_url)  # each call blocks, as no loop runs here
    played = rollout_once(env, iter(["I guess [crane]", "Shout it", "???", "[lumpy]", "[badge]", "[fifth]"]), 6)
    env.close()
    assert len(played["prompts"]) == len(played["green"])
    assert all("secret 5-letter word" in str(prompt) for prompt in played["prompts"])
    assert all(isinstance(score, float) for name in ("correct", "green", "yellow") for score in played[name])


def test_public_scripts_find_the_transcript_that_they_cut(textarena_url: str) -> None:
    with server(TEXTARENA_HISTORY="cumulative") as url, TextArenaEnv(base_url=url).sync() as env:
        tool = WordleTool(TextArenaEnv(base_url=url))
        assert tool.reset().startswith("\n[GAME] You are Playing Wordle.")
        assert tool.guess("[crane]").startswith("\n[GAME] [crane]\n[GAME] You submitted [crane].\nFeedback:")
        assert "You attempted an invalid move" in tool.guess("[crane]")
        tool.client.close()
        assert len(env.reset(history="new").observation.messages) == 1


async def test_the_wire_has_the_public_fields(textarena_url: str) -> None:
    async with GenericEnvClient(base_url=textarena_url) as env:
        await env.reset(seed=1, env_id="TicTacToe-v0")
        result = await env.step({"message": "[4]"})
        assert result.observation.keys() >= {"prompt", "messages", "current_player_id", "legal_players", "info"}
        assert result.observation["messages"][-1].keys() == {"sender_id", "content", "category"}
        assert (result.observation["current_player_id"], result.reward, result.done) == (1, 0.0, False)
        state = await env.state()
    assert (state["env_id"], state["num_players"], state["turn"], state["step_count"]) == ("TicTacToe-v0", 2, 1, 1)
    assert state["raw_state"] == {"current_player_id": 1, "done": False, "max_turns": None}


async def test_a_fork_goes_on_from_the_same_position(textarena_url: str) -> None:
    async with TextArenaEnv(base_url=textarena_url) as env:
        await env.reset(seed=4, env_id="2048-v0")
        await env.step(TextArenaAction(message="[up]"))
        (branch,) = await env.fork(1)
        async with branch:
            moved = [await each.step(TextArenaAction(message="[left]")) for each in (env, branch)]
    assert moved[0].observation.messages == moved[1].observation.messages


async def test_what_is_refused_changes_nothing(textarena_url: str) -> None:
    async with GenericEnvClient(base_url=textarena_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"message": "[crane]"})
        await env.reset(seed=1)
        for wrong in ({}, {"message": 5}, {"message": "a" * 100_001}, {"message": "[crane]", "hint": True}):
            with pytest.raises(RequestRejectedError):
                await env.step(wrong)
        with pytest.raises(RequestRejectedError, match="no random opponents for SecretMafia-v0"):
            await env.reset(env_id="SecretMafia-v0", opponents="random")
        assert "You have 5 guesses left" in (await env.step({"message": "[crane]"})).observation["text"]
