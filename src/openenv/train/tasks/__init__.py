"""Tasks of training: seeds, the choice of what is played and its order, rows and prompts of a dataset."""
