"""Two models play games of TextArena against each other, both on the client's side.

python two_models.py Qwen/Qwen3-8B@http://localhost:8000 Qwen/Qwen3-4B@http://localhost:8001 --game ConnectFour-v0
python two_models.py MODEL MODEL --url http://localhost:8000  # on a server that runs: openenv serve textarena
"""

import argparse

import openenv
from openenv.agents import Chat, find_participant


def main() -> None:
    """Play, and show who won and what each model has used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs=2, metavar="MODEL", help="NAME@URL, or module:name of another participant")
    parser.add_argument("--url", default="textarena", dest="target", help="address of a server that runs")
    parser.add_argument("--game", default="TicTacToe-v0", help="TextArena's id of a game for two")
    parser.add_argument("--games", type=int, default=1, help="how many games; the first model begins each")
    options = parser.parse_args()
    models = [find_participant(model) for model in options.models]
    with openenv.make(options.target).sync() as game:
        for seed in range(options.games):
            players = [Chat(model, name) for model, name in zip(models, options.models, strict=True)]
            result = game.reset(seed=seed, env_id=options.game, num_players=2, opponents="self")
            while not result.done:
                player = players[result.observation.current_player_id]
                move = player.send(result.observation.text or "It is your turn.").text
                result = game.step(game.action_class(message=move))
            print(f"game {seed}: {result.observation.info['reason']}")  # noqa: T201
            for player in players:
                print(f"  {player.name}: {player.usage}")  # noqa: T201


if __name__ == "__main__":
    main()
