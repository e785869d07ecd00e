"""Tools of a session, for agents: those of the environment, and those made of its actions."""
