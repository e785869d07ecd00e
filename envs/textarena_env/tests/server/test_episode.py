import pytest

from textarena_env.server.episode import Episode
from textarena_env.server.game import start
from textarena_env.server.opponents import make_opponents


def episode(env_id: str, *, player_id: int | None = 0, max_turns: int | None = None, history: str = "new") -> Episode:
    game = start(env_id, None, 1, 3, {})
    others = {} if player_id is None or game.num_players == 1 else make_opponents("random", game, player_id, 3)
    return Episode(game, player_id, others, history, max_turns)  # type: ignore[arg-type]  # one of them


def test_opponents_whose_turn_is_first_move_before_the_client() -> None:
    playing = episode("ThreePlayerTicTacToe-v0", player_id=2)
    assert (playing.messages, playing.observing_player, playing.rewarded_player) == (2, 2, 2)
    observation, new = playing.observe()
    assert [message.sender_id for message in new if message.category == "PLAYER_ACTION"] == [0, 1]
    assert observation.legal_players == [2]
    playing.play("[24]")
    assert playing.messages == 5


@pytest.mark.level("command")
def test_each_message_is_seen_once() -> None:
    playing = episode("Wordle-v0")
    first, _ = playing.observe()
    playing.play("[crane]")
    second, new = playing.observe()
    assert [message.category for message in first.messages] == ["PROMPT"]
    assert [message.category for message in second.messages] == ["PLAYER_ACTION", "GAME_MESSAGE"]
    assert second.messages == new
    assert first.prompt == second.prompt == first.messages[0].content
    assert playing.observe()[0].messages == []


def test_a_client_that_plays_all_players_sees_the_next_to_move() -> None:
    playing = episode("TicTacToe-v0", player_id=None)
    prompts, players = [], []
    for cell in (4, 0, 3, 1, 5):
        observation, _ = playing.observe()
        prompts.append(observation.prompt)
        players.append(observation.current_player_id)
        playing.play(f"[{cell}]")
    assert players == [0, 1, 0, 1, 0]
    assert all(f"You are Player {player} in" in prompt for player, prompt in zip(players, prompts, strict=True))
    end, _ = playing.observe()
    assert (end.current_player_id, end.legal_players, playing.rewarded_player) == (0, [], 0)


def test_a_player_does_not_see_what_only_another_player_may_know() -> None:
    playing = episode("KuhnPoker-v0", player_id=None)
    shown = [playing.observe()[0]]
    playing.play("[check]")
    shown.append(playing.observe()[0])
    cards = [next(line for line in each.text.splitlines() if "Your card is" in line) for each in shown]
    assert cards[0] != cards[1]
    assert cards[0] not in shown[1].text


def test_a_cumulative_history_begins_with_the_one_before() -> None:
    playing = episode("Wordle-v0", history="cumulative")
    first, _ = playing.observe()
    playing.play("[crane]")
    second, new = playing.observe()
    assert first.prompt == first.messages[0].content
    assert second.prompt == "Wordle-v0"
    assert second.messages[0].content.startswith(first.messages[0].content)
    assert len(second.messages) == 1
    added = second.messages[0].content.removeprefix(first.messages[0].content)
    assert added.lstrip("\n") == second.text == "\n".join(f"[GAME] {message.content}" for message in new)


def test_it_is_cut_off_after_so_many_messages() -> None:
    playing = episode("2048-v0", max_turns=2)
    playing.play("[up]")
    assert (playing.over, playing.truncated) == (False, False)
    playing.play("[left]")
    assert (playing.over, playing.truncated, playing.game.over) == (True, True, False)


def test_the_game_s_own_end_is_no_cut() -> None:
    playing = episode("Wordle-v0", max_turns=2)
    playing.play("nonsense")
    playing.play("nonsense")
    assert (playing.over, playing.truncated) == (True, False)
