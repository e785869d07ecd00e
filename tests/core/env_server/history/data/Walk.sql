-- 9893a776-8a95-422f-9112-6b0cc938bfb8 dLvxG7wyWUUNEEnPM0zgXA 3 1.7765508848373717
BEGIN TRANSACTION;
CREATE TABLE alive (
        run INTEGER PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL            -- when it was last at it, in the journal's time
    );
CREATE TABLE batch (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,               -- that wrote it
    at REAL NOT NULL,
    notes BLOB NOT NULL,                -- [[session, request, type, data, characters of its answer], ...]
    answers TEXT NOT NULL               -- one right after the other; see batch.Note
);
INSERT INTO "batch" VALUES(1,1,1.79539746447910118103e+09,X'5B5D','');
INSERT INTO "batch" VALUES(2,1,1.79539746449216699596e+09,X'5B5B343239343936373239372C312C227265736574222C7B2273656564223A377D2C39385D5D','{"observation":{"metadata":{},"at":0.32383276483316237,"luggage":null},"reward":null,"done":false}');
INSERT INTO "batch" VALUES(3,1,1.79539746453063464169e+09,X'5B5B343239343936373239372C322C2273746570222C7B226C656E677468223A317D2C39365D5D','{"observation":{"metadata":{},"at":0.4746819387576643,"luggage":null},"reward":1.0,"done":false}');
INSERT INTO "batch" VALUES(4,1,1.79539746453364229203e+09,X'5B5B343239343936373239372C332C2273746570222C7B226C656E677468223A327D2C39365D5D','{"observation":{"metadata":{},"at":1.7765508848373717,"luggage":null},"reward":1.0,"done":false}');
CREATE TABLE claim (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,               -- the former owner,
    session INTEGER NOT NULL,           -- of this session
    at REAL NOT NULL
);
CREATE TABLE clock (
        number INTEGER PRIMARY KEY,             -- there is one, 1
        at DOUBLE PRECISION NOT NULL,           -- the journal's time,
        wall DOUBLE PRECISION NOT NULL          -- when a machine's clock said this
    );
INSERT INTO "clock" VALUES(1,1.79539746446183252339e+09,1.79539746446183252339e+09);
CREATE TABLE run (
    number INTEGER PRIMARY KEY,         -- one for each time that a process opened the journal
    started_at REAL NOT NULL
);
INSERT INTO "run" VALUES(1,1.79539746443933892245e+09);
CREATE TABLE session (
    number INTEGER PRIMARY KEY, -- the run that added it, times 2^32, and a count
    id TEXT NOT NULL,           -- several rows have it where it was recovered; the one that was added last counts
    added INTEGER NOT NULL,     -- with this batch
    opened_at REAL NOT NULL,
    token BLOB NOT NULL,        -- its SHA-256
    environment TEXT NOT NULL,
    first_id INTEGER NOT NULL,  -- the number of its first request
    parent INTEGER,             -- the session that this one continues, after a fork or a recovery,
    parent_last_id INTEGER,     -- from the state after the request of this number
    start INTEGER NOT NULL,     -- to be rebuilt, begin in this session, the same or one before it,
    since INTEGER NOT NULL,     -- with the request of this number; or right after it, where there is a snapshot
    batch INTEGER NOT NULL,     -- look no further back than this
    snapshot BLOB,
    position TEXT,              -- where the episode stood, and the answer to that request, where there is a snapshot
    ended TEXT,                 -- why, where it has
    last_batch INTEGER,         -- nothing came after this one, where it has ended
    owner INTEGER NOT NULL      -- the run that may add to it
);
INSERT INTO "session" VALUES(4294967297,'9893a776-8a95-422f-9112-6b0cc938bfb8',1,1.79539746447896528249e+09,X'17D88323FE00E472D72CE49F1DF485A16B995C8244237D42E0D4CB06658D71D2','Walk (name Walk, version 1.0.0)',1,NULL,NULL,4294967297,1,2,NULL,NULL,NULL,NULL,1);
CREATE INDEX session_id ON session (id);
CREATE INDEX claim_run ON claim (run, number);
DELETE FROM "sqlite_sequence";
PRAGMA application_id = 1329941068;
PRAGMA user_version = 2;
COMMIT;
