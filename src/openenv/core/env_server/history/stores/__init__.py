"""Stores of histories: a file, or a database that several servers share."""
