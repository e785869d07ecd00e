"""Checks that compare many episodes of several players: separated, reachable, steady, with a signal to learn from.

Each module answers one question: do the players differ, do the rewards vary as tasks do, does a player that looks at
nothing earn, does the tiny policy learn.
"""
