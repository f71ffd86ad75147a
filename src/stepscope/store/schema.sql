-- The store: what was read, what it was measured against, and what was said about it.
-- This file is always the newest schema; migrations.py leads older stores to it.
-- Absence is NULL, never 0 or ''. Times are nanoseconds UTC since 1970. JSON is kept as bytes.

-- What runs are measured against, once each. Row 0 is "no case".
CREATE TABLE cases (
    id   INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,  -- model.Case.hash; '' for row 0
    body BLOB                   -- model.Case as JSON; NULL when purged, or known by hash only
);
INSERT INTO cases (id, hash) VALUES (0, '');

-- One row a run: what filters and reports read without decoding the trace.
CREATE TABLE runs (
    seq           INTEGER PRIMARY KEY,      -- order of import
    id            TEXT NOT NULL UNIQUE,     -- content id, model.Trajectory.id
    name          TEXT NOT NULL,            -- the source's own name
    workflow      TEXT NOT NULL,
    task          TEXT,
    trial         TEXT,
    agent         TEXT,
    agent_version TEXT,
    outcome       TEXT NOT NULL CHECK (outcome IN ('pass', 'fail', 'unknown')),
    steps         INTEGER NOT NULL CHECK (steps >= 0),
    calls         INTEGER NOT NULL CHECK (calls >= 0),
    tokens        INTEGER,                  -- input and output together
    cost_usd      REAL,
    seconds       REAL,                     -- last end minus first start
    format        TEXT NOT NULL,
    run_id        TEXT,                     -- the recorder's own id of the run
    uri           TEXT,                     -- the file it was read from
    start_ns      INTEGER,
    imported_ns   INTEGER NOT NULL,
    case_id       INTEGER NOT NULL DEFAULT 0 REFERENCES cases (id),
    superseded_by INTEGER REFERENCES runs (seq),  -- the longer version of the same session
    purged_ns     INTEGER                   -- when the texts were erased
);
CREATE INDEX runs_by_name ON runs (name);
CREATE INDEX runs_by_session ON runs (run_id, format) WHERE run_id IS NOT NULL;

-- The traces themselves. Purging deletes the row.
CREATE TABLE traces (
    run   INTEGER PRIMARY KEY REFERENCES runs (seq),
    head  BLOB NOT NULL,  -- model.Trajectory as JSON, without its steps and its case
    steps BLOB NOT NULL   -- array of model.Step as JSON
);

CREATE TABLE tags (
    run   INTEGER NOT NULL REFERENCES runs (seq),
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

-- Images, audio and files lie beside the store, in its blob folder, under their sha256.
CREATE TABLE media (
    run    INTEGER NOT NULL REFERENCES runs (seq),
    place  INTEGER NOT NULL,  -- which part, counted over the steps' parts, then their results' parts
    sha256 TEXT NOT NULL,     -- of the bytes; the file's name
    PRIMARY KEY (run, place)
) WITHOUT ROWID;
CREATE INDEX media_by_hash ON media (sha256);

-- Facts fitted from a fleet, every version that records refer to; the latest fitted is in force.
CREATE TABLE facts (
    workflow  TEXT NOT NULL,
    hash      TEXT NOT NULL,
    body      BLOB NOT NULL,  -- model.Facts as JSON
    fitted_ns INTEGER NOT NULL,
    PRIMARY KEY (workflow, hash)
);

-- Who was asked what: the provenance that many records share.
CREATE TABLE questions (
    id      INTEGER PRIMARY KEY,
    measure TEXT NOT NULL,  -- full name with aspect
    version TEXT NOT NULL,
    facts   TEXT NOT NULL,  -- hash of the tables used, '' for none
    judge   TEXT NOT NULL,  -- family, model and snapshot, or the annotator; '' for rules
    prompt  TEXT NOT NULL,
    family  TEXT NOT NULL,  -- rules, human, or a judge's
    rubric  TEXT NOT NULL,
    UNIQUE (measure, version, facts, judge, prompt)
);

-- Answers. Together with `questions` the primary key is the unique key of model.Record.
CREATE TABLE records (
    question   INTEGER NOT NULL REFERENCES questions (id),
    run        INTEGER NOT NULL REFERENCES runs (seq),
    case_id    INTEGER NOT NULL REFERENCES cases (id),
    repeat     INTEGER NOT NULL CHECK (repeat >= 0),
    step       INTEGER NOT NULL CHECK (step >= -1),  -- -1: the whole run (NULLs are never equal)
    -- 1 a value, 2 a label only, negative: unmeasured, -1 - position in values.UNMEASURED_KINDS
    state      INTEGER NOT NULL CHECK (state IN (1, 2) OR state BETWEEN -127 AND -1),
    value      REAL CHECK (value BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),
    label      TEXT CHECK (label <> ''),
    cites      TEXT NOT NULL,  -- JSON array of step indexes, '' for none
    reason     TEXT NOT NULL,
    confidence REAL CHECK (confidence BETWEEN 0 AND 1),
    usage      TEXT,           -- model.Usage as JSON
    cost_usd   REAL CHECK (cost_usd >= 0),
    seconds    REAL CHECK (seconds >= 0),  -- latency of the answer
    at_ns      INTEGER NOT NULL,
    PRIMARY KEY (question, run, case_id, repeat, step),
    -- SQLite turns NaN into NULL: a value that is none cannot get in.
    CHECK ((state = 1) = (value IS NOT NULL)),
    CHECK (state <> 2 OR label IS NOT NULL)
) WITHOUT ROWID;

-- Which answers of a deterministic measure are current in a workflow; `score` writes it.
CREATE TABLE current (
    measure  TEXT NOT NULL,  -- name without aspect
    workflow TEXT NOT NULL,
    version  TEXT NOT NULL,
    facts    TEXT NOT NULL,
    PRIMARY KEY (measure, workflow)
) WITHOUT ROWID;

-- Weights of steps, fixed before a run of the task has a score.
CREATE TABLE weights (
    workflow TEXT NOT NULL,
    task     TEXT NOT NULL,  -- or the run's name where it has no task; '*' for every task
    hash     TEXT NOT NULL,
    body     BLOB NOT NULL,  -- JSON array, one weight a scored step
    fixed_ns INTEGER NOT NULL,
    PRIMARY KEY (workflow, task)
) WITHOUT ROWID;

-- How far apart each judge scores the same step twice, from duplicate scorings.
CREATE TABLE noise (
    judge       TEXT PRIMARY KEY,  -- as in questions; '' for scores that name none
    body        BLOB NOT NULL,     -- values.Estimate as JSON
    measured_ns INTEGER NOT NULL
) WITHOUT ROWID;

-- Runs that could have been drawn for a rubric, and those that were.
CREATE TABLE samples (
    rubric      TEXT NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    chosen      INTEGER NOT NULL CHECK (chosen IN (0, 1)),
    drawn_ns    INTEGER NOT NULL,
    PRIMARY KEY (rubric, run)
) WITHOUT ROWID;

-- What people said, with how they came to be asked; the records of family human follow from it.
-- Nothing is deleted: what was taken back is marked.
CREATE TABLE labels (
    id          INTEGER PRIMARY KEY,  -- in the order in which they were given, whatever a clock says
    measure     TEXT NOT NULL,        -- as in questions
    run         INTEGER NOT NULL REFERENCES runs (seq),
    step        INTEGER NOT NULL CHECK (step >= -1),  -- -1: the whole run
    annotator   TEXT NOT NULL CHECK (annotator <> ''),
    repeat      INTEGER NOT NULL CHECK (repeat >= 0),
    round       INTEGER NOT NULL CHECK (round >= 0),  -- of norming, 0 for none
    label       TEXT CHECK (label <> ''),
    value       REAL CHECK (value BETWEEN 0 AND 1),
    decided     INTEGER NOT NULL CHECK (decided IN (0, 1)),
    queue       TEXT NOT NULL,        -- one of model.QUEUES
    probability REAL CHECK (probability > 0 AND probability <= 1),
    policy      TEXT NOT NULL,        -- hash of the labelling policy, '' for unknown
    blind       INTEGER CHECK (blind IN (0, 1)),
    position    INTEGER CHECK (position >= 0),
    seconds     REAL CHECK (seconds >= 0),
    expanded    TEXT NOT NULL,        -- JSON array, '' for none
    given_ns    INTEGER,
    cites       TEXT NOT NULL,        -- JSON array, '' for none
    confidence  REAL CHECK (confidence BETWEEN 0 AND 1),
    reason      TEXT NOT NULL,
    withdrawn   INTEGER NOT NULL CHECK (withdrawn IN (0, 1)),  -- 1: taken back, or replaced
    CHECK (decided = 0 OR label IS NOT NULL OR value IS NOT NULL)
);
CREATE UNIQUE INDEX labels_by_item ON labels (run, measure, step, annotator, repeat, round)
    WHERE withdrawn = 0;

-- Draws of items for people to label.
CREATE TABLE queues (
    id       INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,  -- labels.QueueDraw as JSON
    drawn_ns INTEGER NOT NULL
);

-- What was drawn. An item that is not shared is asked of one annotator, who then holds it.
CREATE TABLE queued (
    queue       INTEGER NOT NULL REFERENCES queues (id),
    place       INTEGER NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    step        INTEGER NOT NULL CHECK (step >= -1),
    probability REAL CHECK (probability > 0 AND probability <= 1),
    shared      INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder      TEXT,
    PRIMARY KEY (queue, place)
) WITHOUT ROWID;

-- Records that could not be read: where they stand, why, and their bytes.
CREATE TABLE quarantine (
    id          INTEGER PRIMARY KEY,
    uri         TEXT NOT NULL,
    place       INTEGER NOT NULL,  -- byte offset in the file
    reason      TEXT NOT NULL,
    raw         BLOB NOT NULL,
    imported_ns INTEGER NOT NULL,
    UNIQUE (uri, place, reason)
);

-- What the last import of each file found.
CREATE TABLE accounts (
    uri         TEXT PRIMARY KEY,
    body        BLOB NOT NULL,  -- JSON
    imported_ns INTEGER NOT NULL
);

-- What placeholders for secrets are hashed with: random, and never shown.
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO keys (name, body) VALUES ('redaction', randomblob(32));
