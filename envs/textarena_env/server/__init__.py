"""The server side of the TextArena environment."""
