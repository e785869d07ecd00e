"""Sessions: opened within the server's capacity, stepped one request at a time, closed."""
