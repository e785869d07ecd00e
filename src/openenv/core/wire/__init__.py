"""Messages between clients and servers, without I/O: shared by both ends, independent of either."""
