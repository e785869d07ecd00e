"""The server side of the Catch environment."""
