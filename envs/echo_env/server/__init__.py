"""The server side of the echo environment."""
