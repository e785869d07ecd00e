"""What runs in processes of its own: the servers, and the clients of either package."""
