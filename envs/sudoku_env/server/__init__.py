"""The server side of the Sudoku environment."""
