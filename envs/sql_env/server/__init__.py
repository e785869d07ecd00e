"""The server side of the SQL environment."""
