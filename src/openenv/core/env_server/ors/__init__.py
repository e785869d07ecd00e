"""Open Reward Standard (ORS): sessions, tasks, tools and rewards over HTTP and server-sent events.

Every server speaks ORS. The extra ``ors`` is only for clients of other ORS servers.
"""
