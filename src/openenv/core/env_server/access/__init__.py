"""Access policy, guard and rate limits: who may use the server, and how often."""
