from textarena_env import TextArenaAction, TextArenaEnv, TextArenaMessage, TextArenaObservation
from textarena_env.server.rewards import WordleReward

SHOUT = TextArenaAction(message="[shout]")


def answered(text: str, reward: float = 0.0) -> TextArenaObservation:
    message = TextArenaMessage(sender_id=-1, content=text, category="GAME_MESSAGE")
    return TextArenaObservation(prompt="", messages=[message], reward=reward)


def test_a_guess_has_the_scores_of_its_provider() -> None:
    reward = WordleReward()
    assert reward(SHOUT, answered("Feedback:\nS H O U T\nG X Y X Y")) == 0.0
    greens, yellows, first = "wordle.greens", "wordle.yellows", "wordle.repetitions"
    assert reward.component_scores() == {greens: 0.2, yellows: 0.4, first: 1.0, "wordle.correct": 0.0}
    assert reward(SHOUT, answered("", reward=1.0)) == 1.0
    assert reward.component_scores() == {greens: 1.0, yellows: 0.0, first: 0.0, "wordle.correct": 1.0}
    reward.reset()
    reward(SHOUT, answered(""))
    assert reward.component_scores()[first] == 1.0
    assert reward.total_weights() == {"wordle.correct": 1.0, greens: 0.0, yellows: 0.0, first: 0.0}


def test_only_wordle_has_parts(textarena_url: str) -> None:
    with TextArenaEnv(base_url=textarena_url).sync() as env:
        env.reset(seed=1, env_id="Wordle-v0")
        result = env.step(SHOUT)
        assert len(result.reward_components) == 4
        assert result.reward_components == result.observation.info["reward_signals"]
        env.reset(seed=1, env_id="TicTacToe-v0", opponents="random")
        assert env.step(TextArenaAction(message="[4]")).reward_components == {}
