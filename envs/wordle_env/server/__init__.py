"""The server side of the Wordle environment."""
