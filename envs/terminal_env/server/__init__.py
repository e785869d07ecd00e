"""The server side of the terminal environment."""
