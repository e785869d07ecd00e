"""What a person watches of a server while it serves: a table of its sessions, and each session as it is played."""
