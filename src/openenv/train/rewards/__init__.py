"""Reward functions of TRL: the environment's own reward, and a comparison of the rollouts of a group."""
