"""Forms of a conversation: how results and actions look to a model, and what its answers mean."""
