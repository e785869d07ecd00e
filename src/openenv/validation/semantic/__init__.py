"""Checks of what an environment's rewards mean: solvable, honest, hard to cheat, repeatable.

Each module answers one question: does the oracle reach the top, does doing nothing stay at the floor, does a known
exploit earn a reward, does the solution leak, does the verifier give one verdict.
"""
