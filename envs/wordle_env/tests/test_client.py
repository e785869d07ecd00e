import asyncio
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest

from openenv.core.client.tools import EPISODE_OVER
from openenv.core.client_types import StepResult
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from wordle_env import WordleAction, WordleEnv
from wordle_env.rules import feedback
from wordle_env.words import word_list

TUTORIAL = """
import asyncio
from wordle_env import WordleEnv, WordleAction
async def play_wordle():
    async with WordleEnv(
        base_url="https://openenv-wordle.hf.space"
    ) as env:
        state = await env.reset()
        print(f"Game started. Word length: {state.observation.word_length}")
        guesses = ["STARE", "HOUSE", "MOUSE"]
        for guess in guesses:
            result = await env.step(WordleAction(word=guess))
            obs = result.observation
            print(f"'{guess}' → {obs.feedback} (reward: {result.reward})")
            if result.done:
                if result.reward > 0:
                    print(f"Won! Word was {obs.target_word}")
                break
asyncio.run(play_wordle())
"""


def reward_func(environments: list[WordleEnv]) -> list[float]:
    """The tutorial's reward function."""
    rewards = []
    for env in environments:
        if env.trajectory and env.trajectory[-1].reward > 0:  # type: ignore[operator]  # as the tutorial has it
            steps = len(env.trajectory)
            rewards.append(max(0.5, 1.0 - (steps - 1) * 0.1))
        else:
            rewards.append(0.0)
    return rewards


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_runs_as_written(wordle_url: str) -> None:
    printed = run(TUTORIAL.replace("https://openenv-wordle.hf.space", wordle_url)).splitlines()
    assert printed[0] == "Game started. Word length: 5"
    assert re.fullmatch(r"'STARE' → [🟩🟨⬛]{5} \(reward: [01]\.0\)", printed[1])


def test_the_tutorial_wins_where_its_words_hold_the_secret(wordle_url: str) -> None:
    seed = next(seed for seed in range(10_000) if word_list(5).secret(seed) == "mouse")
    program = TUTORIAL.replace("https://openenv-wordle.hf.space", wordle_url)
    assert run(program.replace("env.reset()", f"env.reset(seed={seed})")).splitlines() == [
        "Game started. Word length: 5",
        "'STARE' → 🟨⬛⬛⬛🟩 (reward: 0.0)",
        "'HOUSE' → ⬛🟩🟩🟩🟩 (reward: 0.0)",
        "'MOUSE' → 🟩🟩🟩🟩🟩 (reward: 1.0)",
        "Won! Word was MOUSE",
    ]


async def test_the_trajectory_is_that_of_the_running_episode(wordle_url: str) -> None:
    async with WordleEnv(base_url=wordle_url) as env:
        assert env.trajectory == []
        await env.reset(seed=1)
        results = [await env.step(WordleAction(word=word)) for word in ("stare", "house")]
        with pytest.raises(RequestRejectedError):
            await env.step(WordleAction(word="zzzzz"))
        assert env.trajectory == results
        assert reward_func([env]) == [0.0]
        won = await env.step(WordleAction(word=word_list(5).secret(1)))
        assert env.trajectory == [*results, won]
        assert reward_func([env]) == [0.8]
        await env.reset(seed=2)
        assert env.trajectory == []


async def test_a_further_session_has_a_trajectory_of_its_own(wordle_url: str) -> None:
    async with WordleEnv(base_url=wordle_url) as env:
        await env.reset(seed=1)
        await env.step(WordleAction(word="stare"))
        other = await env.new_session()
        await other.reset(seed=2)
        await other.step(WordleAction(word="house"))
        await other.step(WordleAction(word="bread"))
        assert [result.observation.guesses[-1] for result in env.trajectory] == ["STARE"]
        assert [result.observation.guesses[-1] for result in other.trajectory] == ["HOUSE", "BREAD"]


def test_blocking_clients_have_it_too(wordle_url: str) -> None:
    with WordleEnv(base_url=wordle_url).sync() as env:
        env.reset(seed=1)
        env.step(WordleAction(word="stare"))
        assert len(env.trajectory) == 1
    bare: Any = WordleEnv(base_url=wordle_url)  # typed as async; where no event loop runs it blocks
    bare.reset(seed=1)
    bare.step(WordleAction(word="stare"))
    assert len(bare.trajectory) == 1
    bare.close()


def test_a_trainer_takes_it_for_an_environment_with_one_tool(wordle_url: str) -> None:
    """As the tutorial has TRL take it; tests/seeds has the trainer itself."""
    found = [name for name, _ in inspect.getmembers(WordleEnv, inspect.isfunction) if not name.startswith("_")]
    assert found == ["guess", "reset"]
    env: Any = WordleEnv(base_url=wordle_url)  # typed as async; where no event loop runs it blocks
    row = {"prompt": [{"role": "user", "content": "Play Wordle."}], "seed": 1}
    assert env.reset(**row).startswith("Find the secret 5-letter word in 6 guesses.")
    assert env.guess("stare").endswith("5 guesses left.")
    assert "word list" in env.guess(word="zzzzz")
    assert env.guess(word="").startswith("word: ")
    assert len(env.trajectory) == 1
    assert "Solved" in env.guess(word=word_list(5).secret(1))
    assert env.guess(word="house") == EPISODE_OVER
    assert reward_func([env]) == [0.9]
    assert "Find" in env.reset(**row)
    assert env.trajectory == []
    env.close()


def test_a_trainer_plays_on_a_textarena_server_too(textarena_url: str) -> None:
    env: Any = WordleEnv(base_url=textarena_url)
    assert env.reset(prompt="Play Wordle.", seed=3)
    assert "5 guesses left" in env.guess(word="CRANE")
    assert [result.observation.guesses for result in env.trajectory] == [["CRANE"]]
    env.close()


async def test_sessions_at_once_play_their_own_words(wordle_url: str) -> None:
    async def win(seed: int) -> str | None:
        async with WordleEnv(base_url=wordle_url) as env:
            await env.reset(seed=seed)
            await env.step(WordleAction(word="stare"))
            return (await env.step(WordleAction(word=word_list(5).secret(seed)))).observation.target_word

    assert await asyncio.gather(*map(win, range(20))) == [word_list(5).secret(seed).upper() for seed in range(20)]


async def test_what_the_rules_refuse_uses_no_guess(wordle_url: str) -> None:
    async with GenericEnvClient(base_url=wordle_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"word": "stare"})
        await env.reset(seed=1)
        await env.step({"word": "stare"})
        for word, says in [("STARE", "guessed before"), ("zzzzz", "word list"), ("abc", "3 characters")]:
            with pytest.raises(RequestRejectedError, match=says) as refused:
                await env.step({"word": word})
            assert refused.value.code == "VALIDATION_ERROR"
        for wrong in ({"word": ""}, {"word": 5}, {}, {"word": "house", "hint": True}):
            with pytest.raises(RequestRejectedError):
                await env.step(wrong)
        with pytest.raises(RequestRejectedError, match="word_length: Input should be less than or equal to 9, got 40"):
            await env.reset(word_length=40)
        assert (await env.step({"word": "house"})).observation["guesses_left"] == 4
        await env.step({"word": word_list(5).secret(1)})
        with pytest.raises(EpisodeOrderError):
            await env.step({"word": "bread"})


async def test_the_secret_does_not_leak_over_the_wire(wordle_url: str) -> None:
    async with GenericEnvClient(base_url=wordle_url) as env:
        shown = [await env.reset(seed=1), await env.state()]
        for word in ("stare", "house", "bread"):
            shown += [await env.step({"word": word}), await env.state()]
        assert word_list(5).secret(1) not in str(shown).lower()


async def test_a_fork_has_a_trajectory_of_its_own(wordle_url: str) -> None:
    async with WordleEnv(base_url=wordle_url) as env:
        await env.reset(seed=1)
        await env.step(WordleAction(word="stare"))
        (fork,) = await env.fork(1)
        await fork.step(WordleAction(word="house"))
        assert [result.observation.guesses[-1] for result in env.trajectory] == ["STARE"]
        assert [result.observation.guesses[-1] for result in fork.trajectory] == ["STARE", "HOUSE"]


def test_the_tutorial_runs_on_a_textarena_server(textarena_url: str) -> None:
    """As the address in it is one."""
    printed = run(TUTORIAL.replace("https://openenv-wordle.hf.space", textarena_url)).splitlines()
    assert printed[0] == "Game started. Word length: 5"
    for guess, line in zip(["STARE", "HOUSE", "MOUSE"], printed[1:], strict=False):
        assert re.fullmatch(rf"'{guess}' → [🟩🟨⬛]{{5}} \(reward: [01]\.0\)", line)


@pytest.mark.parametrize("history", ["cumulative", "new"])
async def test_a_game_on_a_textarena_server(textarena_url: str, history: str) -> None:
    async with WordleEnv(base_url=textarena_url) as env:
        await env.reset(seed=3, env_id="Wordle-v0", history=history)
        secret = await lost_word(env)
        await env.reset(seed=3, env_id="Wordle-v0", history=history)
        assert (env.trajectory, (await env.state()).guesses) == ([], [])
        for word in ("STARE", "zzzzz", "crane"):
            result = await env.step(WordleAction(word=word))
        assert result.observation.guesses == ["STARE", "CRANE"]
        assert result.observation.feedbacks == [feedback(secret, "stare"), feedback(secret, "crane")]
        assert (result.reward, result.observation.guesses_left) == (0.0, 4)
        result = await env.step(WordleAction(word=secret))
        assert (result.reward, result.done, result.observation.target_word) == (1.0, True, secret.upper())
        assert [each.reward for each in env.trajectory] == [0.0, 0.0, 0.0, 1.0]
        assert reward_func([env]) == [0.7]
        state = await env.state()
        assert (state.step_count, state.solved, state.guesses[-1]) == (4, True, secret.upper())


async def lost_word(env: WordleEnv) -> str:
    """Lose a game on purpose, for the secret word that is told then."""
    for word in ("audio", "bumps", "light", "mound", "fjord", "vixen"):
        result = await env.step(WordleAction(word=word))
    assert (result.done, result.reward, result.observation.guesses_left) == (True, 0.0, 0)
    assert result.observation.target_word is not None
    return result.observation.target_word.lower()


async def test_each_slot_of_a_vector_has_its_own_board_on_a_textarena_server(textarena_url: str) -> None:
    words = ["crane", "stare", "house"]
    async with WordleEnv(base_url=textarena_url) as env:
        vector = await env.vector(3)
        await vector.reset(seeds=[1, 2, 3])
        results: Any = await vector.step([WordleAction(word=word) for word in words])
        assert [result.observation.guesses for result in results] == [[word.upper()] for word in words]
        _, second, _ = await vector.step([None, WordleAction(word="audio"), None])
        assert isinstance(second, StepResult)
        assert second.observation.guesses == ["STARE", "AUDIO"]
