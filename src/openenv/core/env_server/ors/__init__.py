"""The Open Reward Standard (ORS): sessions, tasks, tools and rewards over HTTP and server-sent events.

Every server speaks it, without the extra ``ors``: that one is for driving the servers of others.
"""
