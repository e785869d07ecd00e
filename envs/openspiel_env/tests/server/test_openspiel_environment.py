import copy
from random import Random

import pyspiel
import pytest

from game_2048_env.rules import as_board, slides
from openenv.adapters.openspiel.games import game_type
from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError
from openspiel_env import OpenSpielAction, OpenSpielObservation
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment
from openspiel_env.server.settings import Settings

# Its solver takes seconds for a deal, so it plays with fewer of them.
SLOW = {"bridge_uncontested_bidding": {"num_redeals": 1}}


def loads_with_defaults(name: str) -> bool:
    try:
        pyspiel.load_game(name)
    except pyspiel.SpielError:
        return False
    return True


GAMES = [name for name in pyspiel.registered_names() if game_type(name) is not None and loads_with_defaults(name)]


def environment(**settings: object) -> OpenSpielEnvironment:
    return OpenSpielEnvironment(Settings(**settings))


def act(action_id: int) -> OpenSpielAction:
    return OpenSpielAction(action_id=action_id)


def play_out(env: OpenSpielEnvironment, observation: OpenSpielObservation) -> list[OpenSpielObservation]:
    random, observations = Random(5), [observation]
    while not observations[-1].done:
        observations.append(env.step(act(random.choice(observations[-1].legal_actions))))
    return observations


def test_the_readme_counts_the_games() -> None:
    players = [pyspiel.load_game(name).num_players() for name in GAMES]
    assert (players.count(1), players.count(2), len(players)) == (10, 86, 109)


@pytest.mark.parametrize("name", GAMES)
def test_every_game_that_loads_is_played_to_its_end(name: str) -> None:
    env = environment()
    first, *later = play_out(env, env.reset(seed=1, game_name=name, game_params=SLOW.get(name)))
    assert first.reward is None
    assert first.game_phase == "initial"
    assert first.legal_actions
    assert later, "the agent never moved"
    assert all(type(observation.reward) is float for observation in later)
    assert all(observation.game_phase == "playing" for observation in later[:-1])
    assert all(observation.current_player_id == 0 for observation in [first, *later[:-1]])
    assert len({len(observation.info_state) for observation in [first, *later]}) == 1
    assert all(observation.text for observation in later)
    last = later[-1]
    assert (last.done, last.game_phase, last.legal_actions, last.current_player_id) == (True, "terminal", [], -4)
    assert env.state.step_count >= len(later)


@pytest.mark.parametrize(
    ("name", "size", "actions"),
    [
        ("catch", 50, [0, 1, 2]),
        ("tic_tac_toe", 27, list(range(9))),
        ("kuhn_poker", 11, [0, 1]),
        ("cliff_walking", 400, [0, 1, 2, 3]),
        ("blackjack", 189, [0, 1]),
    ],
)
def test_the_shapes_of_the_well_known_games(name: str, size: int, actions: list[int]) -> None:
    observation = environment().reset(seed=1, game_name=name)
    assert len(observation.info_state) == size
    assert observation.legal_actions == actions


def test_2048_shows_its_tiles_and_rewards_merges() -> None:
    env = environment(game_name="2048")
    observations = play_out(env, env.reset(seed=1))
    assert len(observations[0].info_state) == 16
    assert sorted(observations[0].info_state)[-2:] in ([2.0, 2.0], [2.0, 4.0], [4.0, 4.0])
    assert sum(float(observation.reward or 0) for observation in observations) > 0
    assert all(float(observation.reward or 0) % 4 == 0 for observation in observations)


def test_catch_falls_for_nine_steps() -> None:
    env = environment()
    observations = play_out(env, env.reset(seed=1))
    assert [observation.reward for observation in observations[:-1]] == [None] + [0.0] * 8
    assert observations[-1].reward in (1.0, -1.0)
    assert observations[0].info_state[45:] == [0, 0, 1, 0, 0]  # the paddle begins in the middle


def test_cliff_walking_costs_one_a_step_and_a_hundred_for_the_cliff() -> None:
    env = environment(game_name="cliff_walking")
    env.reset(seed=1)
    assert env.step(act(1)).reward == -1.0
    assert env.step(act(3)).reward == -1.0
    fallen = env.step(act(0))
    assert (fallen.reward, fallen.done) == (-100.0, True)


def test_rewards_of_opponents_moves_are_the_agents_too() -> None:
    """The agent wins or loses by the other player's move as well as by its own."""
    lost = 0
    for seed in range(30):
        env = environment(game_name="tic_tac_toe")
        lost += play_out(env, env.reset(seed=seed))[-1].reward == -1.0
    assert lost > 0


def test_a_reset_takes_any_game_and_returns_to_the_servers() -> None:
    env = environment(game_name="tic_tac_toe")
    assert len(env.reset().info_state) == 27
    env.reset(game_name="go", game_params={"board_size": 5}, episode_id="go")
    assert env.state.model_dump() == {
        "episode_id": "go",
        "step_count": 0,
        "game_name": "go",
        "agent_player": 0,
        "opponent_policy": "random",
        "game_params": {"board_size": 5},
        "num_players": 2,
    }
    assert len(env.reset().info_state) == 27


def test_moves_of_all_players_are_counted() -> None:
    env = environment(game_name="tic_tac_toe", opponent_policy="first")
    env.reset(seed=1)
    env.step(act(4))
    assert env.state.step_count == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"game_name": "tictactoe"}, "did you mean tic_tac_toe"),
        ({"game_params": {"rows": 0}}, "cannot be played with"),
    ],
)
def test_a_refused_reset_leaves_the_episode_as_it_was(arguments: dict[str, object], says: str) -> None:
    env = environment()
    env.reset(seed=1, episode_id="goes on")
    env.step(act(1))
    with pytest.raises(InvalidRequestError, match=says):
        env.reset(**arguments)  # type: ignore[arg-type]  # a client may send anything
    assert env.state.episode_id == "goes on"
    env.step(act(1))
    assert env.state.step_count == 2


def test_a_game_without_the_agents_place_is_refused() -> None:
    env = environment(game_name="tic_tac_toe", agent_player=1)
    with pytest.raises(InvalidRequestError, match="catch has 1 player"):
        env.reset(game_name="catch")


@pytest.mark.parametrize("action_id", [3, 99, 10**12])
def test_an_illegal_move_is_refused_and_changes_nothing(action_id: int) -> None:
    env = environment()
    before = env.reset(seed=1)
    with pytest.raises(IllegalActionError, match=r"play one of 0 = LEFT, 1 = STAY, 2 = RIGHT\."):
        env.step(act(action_id))
    assert env.render() in before.text
    assert env.state.step_count == 0
    assert env.step(act(1)).reward == 0.0


def test_a_long_list_of_moves_is_cut() -> None:
    env = environment(game_name="go")
    env.reset(seed=1)
    with pytest.raises(IllegalActionError, match="and 342 more"):
        env.step(act(5000))


def test_there_is_nothing_to_play_before_a_reset_or_after_the_end() -> None:
    env = environment()
    with pytest.raises(ResetNeededError):
        env.step(act(1))
    play_out(env, env.reset(seed=1))
    with pytest.raises(ResetNeededError):
        env.step(act(1))


def test_playing_all_sides_tells_every_players_rewards() -> None:
    env = environment(game_name="tic_tac_toe", opponent_policy="self")
    observation = env.reset(seed=1)
    players = []
    for cell in (0, 3, 1, 4, 2):
        players.append(observation.current_player_id)
        observation = env.step(act(cell))
    assert players == [0, 1, 0, 1, 0]
    assert (observation.done, observation.reward, observation.metadata) == (True, 1.0, {"rewards": [1.0, -1.0]})


@pytest.mark.parametrize(
    "name",
    ["2048", "backgammon", "blackjack", "catch", "goofspiel", "hearts", "kuhn_poker", "snake", "tarok", "tic_tac_toe"],
)
def test_a_copy_goes_on_by_itself_and_alike(name: str) -> None:
    original = environment()
    observation = original.reset(seed=1, game_name=name)
    observation = original.step(act(observation.legal_actions[0]))
    copied = copy.deepcopy(original)
    assert play_out(original, observation) == play_out(copied, observation)


def test_a_merge_of_a_tile_that_was_just_merged_is_legal_in_2048() -> None:
    """OpenSpiel's own list leaves it out."""
    for seed in range(5):
        env = environment(game_name="2048")
        for observation in play_out(env, env.reset(seed=seed)):
            tiles = [[int(tile) for tile in observation.info_state[row : row + 4]] for row in (0, 4, 8, 12)]
            moves = [["up", "right", "down", "left"].index(move) for move, _, _ in slides(as_board(tiles))]
            assert observation.legal_actions == ([] if observation.done else moves)


def test_instances_share_nothing() -> None:
    one, other = environment(), environment()
    assert one.reset(seed=1) == other.reset(seed=1)
    one.step(act(0))
    assert other.step(act(1)) == environment_after_one_step()


def environment_after_one_step() -> OpenSpielObservation:
    env = environment()
    env.reset(seed=1)
    return env.step(act(1))


def test_the_settings_come_from_the_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSPIEL_GAME", "tic_tac_toe")
    monkeypatch.setenv("OPENSPIEL_AGENT_PLAYER", "1")
    env = OpenSpielEnvironment()
    assert env.reset(seed=1).current_player_id == 1
    assert env.state.game_name == "tic_tac_toe"
