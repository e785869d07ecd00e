"""Gymnasium's CartPole-v1 as an environment to serve: an example of wrapping an environment from elsewhere."""
