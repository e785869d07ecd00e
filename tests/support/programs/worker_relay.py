"""Hands its standard streams to a worker that is forked for it, and ends with that; see worker_template.py."""

import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        socket.send_fds(connection, [b"x"], [0, 1, 2])
        os.close(0)
        os.close(1)  # else the end of the worker would not be seen by who reads it
        connection.recv(1)
