"""Files of runs, evaluations and collections: folders, lines and figures, written and read by one package.

Training writes, and the viewer and the commands read; nothing in this package loads torch.
"""
