"""Records of play: episodes, their turns and their scores."""
