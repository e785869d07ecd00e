"""Forms of episodes that other programs read and write: conversations, ATIF, Inspect's logs, Parquet."""
