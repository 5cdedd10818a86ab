-- An index over the run folders. They are the record; everything here can be made again from them.

CREATE TABLE plan (
    id       TEXT PRIMARY KEY,   -- sortable by time
    suite    TEXT NOT NULL,
    command  TEXT NOT NULL
);

CREATE TABLE plan_cell (         -- every cell of a plan, in the order of its table
    plan_id  TEXT NOT NULL REFERENCES plan(id),
    position INTEGER NOT NULL,
    cell     TEXT NOT NULL,      -- its settings as JSON, which also identify it
    reason   TEXT,               -- why it is skipped, or NULL
    PRIMARY KEY (plan_id, position)
);

CREATE TABLE plan_run (          -- the runs that a plan wants of a cell
    plan_id  TEXT NOT NULL REFERENCES plan(id),
    position INTEGER NOT NULL,   -- of the cell
    key      TEXT NOT NULL
);
CREATE INDEX plan_run_plan ON plan_run(plan_id);

CREATE TABLE run (
    id            TEXT PRIMARY KEY,
    key           TEXT NOT NULL, -- the same for runs that measured the same thing
    cell          TEXT NOT NULL,
    repeat        INTEGER NOT NULL,
    machine       TEXT NOT NULL,
    framework_version TEXT NOT NULL,
    fingerprint   TEXT NOT NULL, -- of the framework's environment
    started       REAL NOT NULL,
    seconds       REAL NOT NULL, -- wall time of the whole run
    status        TEXT NOT NULL,
    phase         TEXT NOT NULL,
    kind          TEXT,
    message       TEXT,
    log_end       TEXT
);
CREATE INDEX run_key ON run(key);
CREATE INDEX run_cell ON run(cell);

CREATE TABLE block (             -- some steps, from idle devices to idle devices
    run_id            TEXT NOT NULL REFERENCES run(id),
    rank              INTEGER NOT NULL,
    position          INTEGER NOT NULL,
    phase             TEXT NOT NULL,
    steps             INTEGER NOT NULL,
    images            INTEGER NOT NULL,
    seconds           REAL NOT NULL,
    processor_seconds REAL NOT NULL
);
CREATE INDEX block_run ON block(run_id);

CREATE TABLE phase (             -- when each rank entered each phase
    run_id   TEXT NOT NULL REFERENCES run(id),
    rank     INTEGER NOT NULL,
    phase    TEXT NOT NULL,
    started  REAL NOT NULL,
    seconds  REAL                -- until the next one began; NULL if none did
);
CREATE INDEX phase_run ON phase(run_id);

CREATE TABLE memory (            -- one row per process, or per GPU
    run_id     TEXT NOT NULL REFERENCES run(id),
    position   INTEGER NOT NULL,
    idle_bytes INTEGER NOT NULL, -- the framework has started, nothing is built
    peak_bytes INTEGER NOT NULL  -- from the first step to the end of training
);
CREATE INDEX memory_run ON memory(run_id);

-- Ranks train side by side: their images add up, and the slowest of them sets the time.
CREATE VIEW step_block AS
SELECT run_id, phase, position, SUM(images) AS images, MAX(seconds) AS seconds, SUM(processor_seconds) AS processor_seconds
FROM block GROUP BY run_id, phase, position;

-- Training only; totals over totals, never a mean of rates.
CREATE VIEW training AS
SELECT run_id,
       SUM(images)                          AS images,
       SUM(seconds)                         AS seconds,
       SUM(images) / SUM(seconds)           AS images_per_second,
       SUM(images) / SUM(processor_seconds) AS images_per_processor_second
FROM step_block WHERE phase = 'train' GROUP BY run_id;

-- The first step compiles, chooses kernels and allocates.
CREATE VIEW first_step AS
SELECT run_id, SUM(seconds) AS seconds FROM step_block WHERE phase = 'compile' GROUP BY run_id;
