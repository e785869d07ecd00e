"""Tables of a journal in PostgreSQL, the same as in ``sqlite.py``, which describes them."""

from typing import Any

import psycopg

from openenv.core.env_server.history.clock import CLOCK_TABLES
from openenv.core.exceptions import ConfigurationError

SCHEMA = "openenv_journal"
_VERSION = 1

# Classes of advisory locks: "OEJL" for a run, by its number, and the next for the journal as a whole.
_OF_RUN = 0x4F454A4C
_OF_JOURNAL = _OF_RUN + 1
_MAKING, _LEADING = 1, 2

ACQUIRED = "OE001"
"""SQLSTATE of ``append`` where sessions were acquired."""

LOCK_RUN = f"SELECT pg_advisory_xact_lock({_OF_RUN}, :run)"
IDENTITY = "SELECT to_regclass('openenv_journal.batch')::oid::bigint"
"""Query for the journal's identity, ``NULL`` for none: a journal that is created again gets a new one."""
LEAD = f"SELECT pg_try_advisory_lock({_OF_JOURNAL}, {_LEADING})"

_TABLES = f"""
CREATE TABLE journal (
    version integer NOT NULL,
    looked_after_at timestamptz NOT NULL DEFAULT '-infinity'  -- time of the last retention
);
CREATE TABLE run (
    number integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    started_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE session (
    number bigint PRIMARY KEY,
    id text NOT NULL,
    added bigint NOT NULL,
    opened_at double precision NOT NULL,
    token bytea NOT NULL,
    environment text NOT NULL,
    first_id bigint NOT NULL,
    parent bigint,
    parent_last_id bigint,
    start bigint NOT NULL,
    since bigint NOT NULL,
    batch bigint NOT NULL,
    snapshot bytea,
    position text,
    ended text,
    last_batch bigint,
    owner integer NOT NULL
);
CREATE INDEX session_id ON session (id);
CREATE TABLE batch (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    run integer NOT NULL,
    sequence bigint NOT NULL,  -- identifies a commit whose confirmation was lost
    at double precision NOT NULL,
    size integer NOT NULL,
    notes bytea NOT NULL,
    answers bytea NOT NULL,    -- in UTF-8, since a text can't hold every character
    UNIQUE (run, sequence)
);
CREATE INDEX batch_run ON batch (run, number);
CREATE TABLE claim (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    run integer NOT NULL,
    session bigint NOT NULL,
    at double precision NOT NULL
);
CREATE INDEX claim_run ON claim (run, number);

-- Add a batch unless sessions of the run were acquired that it does not know of. A run that acquires sessions locks the
-- owner's run until it has committed, and waits for the commit of an earlier batch.
CREATE FUNCTION append(its_run integer, known bigint, its_sequence bigint, its_at double precision,
    its_notes bytea, its_answers bytea) RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
    its_number bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared({_OF_RUN}, its_run);
    IF EXISTS (SELECT FROM claim WHERE claim.run = its_run AND claim.number > known) THEN
        RAISE EXCEPTION 'sessions of run % were acquired', its_run USING ERRCODE = '{ACQUIRED}';
    END IF;
    INSERT INTO batch (run, sequence, at, size, notes, answers)
    VALUES (its_run, its_sequence, its_at, length(its_notes) + length(its_answers), its_notes, its_answers)
    ON CONFLICT (run, sequence) DO NOTHING RETURNING batch.number INTO its_number;
    IF its_number IS NULL THEN
        SELECT batch.number INTO its_number FROM batch WHERE batch.run = its_run AND batch.sequence = its_sequence;
    END IF;
    PERFORM set_config('openenv.batch', its_number::text, true);
    RETURN its_number;
END
$body$;
INSERT INTO journal (version) VALUES ({_VERSION});
"""  # noqa: S608  # constants


def prepare_tables(connection: "psycopg.Connection[Any]", name: str) -> None:
    """Create the tables, or check the existing tables.

    Args:
        connection: Connection to the database.
        name: Name of the journal in messages.

    Raises:
        ConfigurationError: The tables are of another version.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_OF_JOURNAL, _MAKING))  # against a race
        found = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.journal",)).fetchone()
        if found is None or found[0] is None:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(f"SET LOCAL search_path = {SCHEMA}")
            connection.execute(_TABLES)
            _add_clock(connection)
            return
        version = connection.execute(f"SELECT version FROM {SCHEMA}.journal").fetchone()  # noqa: S608  # a constant
        if version != (_VERSION,):
            raise ConfigurationError(
                f"Expected the journal {name} to have version {_VERSION}, got {version and version[0]}: another "
                f"release of OpenEnv has made it. Give another database, or drop the schema {SCHEMA} with its sessions."
            )
        lacks_clock = connection.execute("SELECT to_regclass(%s) IS NULL", (f"{SCHEMA}.alive",)).fetchone()
        if lacks_clock == (True,):  # an earlier release has created the tables
            connection.execute(f"SET LOCAL search_path = {SCHEMA}")
            _add_clock(connection)


def _add_clock(connection: "psycopg.Connection[Any]") -> None:
    for statement in CLOCK_TABLES:
        connection.execute(statement)


def add_run(connection: "psycopg.Connection[Any]") -> int:
    """Add a run for a process that uses the journal. Return the run's number."""
    added = connection.execute(f"INSERT INTO {SCHEMA}.run DEFAULT VALUES RETURNING number").fetchone()  # noqa: S608
    assert added is not None
    return int(added[0])
