-- What judges were asked, what came back, and what it cost, beside the store.
-- Money is kept in billionths of a USD, so that sums are exact. Times are only recorded: nothing is
-- decided by them.

-- Processes that buy now. A row goes when its run ends; one of a dead process is taken over.
CREATE TABLE owners (
    id    INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,  -- random, one a run
    place TEXT NOT NULL,         -- where process numbers mean the same: boot and namespace
    pid   INTEGER NOT NULL,
    start TEXT NOT NULL,         -- when the process started: a later one may have its number
    beat  INTEGER NOT NULL       -- raised every few seconds, for those in another place
);

-- What may be spent under one name, by however many processes.
CREATE TABLE budgets (
    name     TEXT PRIMARY KEY,
    most     INTEGER,                     -- NULL: no limit
    spent    INTEGER NOT NULL DEFAULT 0,  -- paid, or perhaps paid
    reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0)  -- the worst that may still come
) WITHOUT ROWID;

-- One row a key.
--   planned   nobody asks, or its owner is about to
--   sent      its owner asks; after a crash nobody knows what became of it
--   received  the reply is in `replies`
--   verdict   and what it says is in the store
--   failed    nothing usable came; a later run asks again
CREATE TABLE asks (
    key        TEXT PRIMARY KEY,            -- judgement.key_of
    trajectory TEXT NOT NULL,
    judge      TEXT NOT NULL,
    request    TEXT NOT NULL DEFAULT '',    -- judgement.request_hash, once sent
    state      TEXT NOT NULL CHECK (state IN ('planned', 'sent', 'received', 'verdict', 'failed')),
    owner      INTEGER,                     -- NULL when nobody asks
    attempts   INTEGER NOT NULL DEFAULT 0,  -- how often it was sent
    budget     TEXT NOT NULL DEFAULT '',
    reserved   INTEGER NOT NULL DEFAULT 0,
    cost       INTEGER,                     -- NULL: not known
    reason     TEXT NOT NULL DEFAULT '',    -- why it failed
    at_ns      INTEGER NOT NULL,            -- of the last change
    CHECK ((owner IS NOT NULL) OR reserved = 0),
    CHECK ((state <> 'sent') OR owner IS NOT NULL)
) WITHOUT ROWID;
CREATE INDEX asks_by_owner ON asks (owner) WHERE owner IS NOT NULL;
CREATE INDEX asks_by_trajectory ON asks (trajectory);

-- What came back, whole and compressed; purging deletes the row.
CREATE TABLE replies (
    key  TEXT PRIMARY KEY REFERENCES asks (key),
    body BLOB NOT NULL,
    at_ns INTEGER NOT NULL
);

-- Calls of which nobody knows what became: perhaps paid, and bought again.
CREATE TABLE unknown (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL,
    trajectory TEXT NOT NULL,
    judge      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,  -- the how-manieth sending it was, from 1
    worst      INTEGER NOT NULL,  -- counted as spent
    budget     TEXT NOT NULL,
    why        TEXT NOT NULL,
    run        TEXT NOT NULL,     -- token of the run that tells of it; '' once that is acknowledged
    at_ns      INTEGER NOT NULL
);
CREATE INDEX unknown_by_run ON unknown (run);

-- Batches that were sent, or were about to be. While one is open it owns its asks, by a row of its
-- own in `owners` that outlives every process.
CREATE TABLE batches (
    token     TEXT PRIMARY KEY,          -- random, ours
    judge     TEXT NOT NULL,
    owner     INTEGER,                   -- NULL when it is over
    structure TEXT NOT NULL,             -- how structured output is asked for in it
    remote    TEXT NOT NULL DEFAULT '',  -- the provider's name for it; '' until that is known
    keeper    INTEGER,                   -- the run that looks after it
    asks      INTEGER NOT NULL,
    at_ns     INTEGER NOT NULL
) WITHOUT ROWID;

-- What every question has in it, and nobody who writes a trace knows.
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
