"""The sessions of a training: one client, and an end for all of them."""

import gc

import pytest
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.train.session_pool import SessionPool


def pool_of(server: RunningServer) -> SessionPool:
    return SessionPool(GenericEnvClient(base_url=server.url).sync())


def test_sessions_open_with_their_first_use_and_share_a_connection(stairs_server: RunningServer) -> None:
    pool = pool_of(stairs_server)
    sessions = [pool.session() for _ in range(5)]
    assert stairs_server.sessions.active_sessions == 0

    results = [session.reset(seed=seed) for seed, session in enumerate(sessions)]

    assert [result.observation["position"] for result in results] == [0] * 5
    assert stairs_server.sessions.active_sessions == 5
    assert stairs_server.connections == 1
    pool.close()
    stairs_server.wait_for_sessions(0)


def test_a_closed_pool_gives_no_more(stairs_server: RunningServer) -> None:
    pool = pool_of(stairs_server)
    pool.close()
    pool.close()

    assert pool.closed
    with pytest.raises(ConfigurationError, match="were closed"):
        pool.session()


def test_a_pool_that_nobody_holds_ends_its_sessions(stairs_server: RunningServer) -> None:
    pool = pool_of(stairs_server)
    pool.session().reset(seed=1)
    assert stairs_server.sessions.active_sessions == 1

    del pool
    gc.collect()

    stairs_server.wait_for_sessions(0)
