"""Two to four runs, evaluations or files of traces beside each other."""
