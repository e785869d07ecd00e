"""Tasks of training: seeds, rows of a dataset, and the choice of what is played."""
