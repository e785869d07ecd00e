"""The Sudoku server: ``uvicorn sudoku_env.server.app:app``, or ``openenv serve sudoku``."""

from openenv.core.env_server import create_app, server_main

from .sudoku_environment import SudokuEnvironment

app = create_app(SudokuEnvironment, env_name="sudoku_env")


def main() -> None:
    """Serve until interrupted."""
    server_main(app)


if __name__ == "__main__":
    main()
