-- An index over the run folders. They are the record; everything here can be made again from them.

CREATE TABLE plan (
    id       TEXT PRIMARY KEY,   -- sortable by time
    suite    TEXT NOT NULL,
    command  TEXT NOT NULL,
    interval_target REAL         -- a cell whose interval is wider is noisy; NULL is the usual limit
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
    processor_seconds REAL NOT NULL,
    waited_seconds    REAL NOT NULL, -- for real images that were not ready
    loss              REAL,          -- summed over the images; NULL where training has diverged
    correct           INTEGER        -- images that were right; NULL where it was not counted
);
CREATE INDEX block_run ON block(run_id);

CREATE TABLE evaluation (        -- one rank's part of the test images
    run_id  TEXT NOT NULL REFERENCES run(id),
    rank    INTEGER NOT NULL,
    steps   INTEGER NOT NULL,    -- of training before it
    images  INTEGER NOT NULL,
    loss    REAL,                -- summed
    correct INTEGER NOT NULL,
    seconds REAL NOT NULL
);
CREATE INDEX evaluation_run ON evaluation(run_id);

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
SELECT run_id, phase, position, MAX(steps) AS steps, SUM(images) AS images, MAX(seconds) AS seconds,
       SUM(processor_seconds) AS processor_seconds, MAX(waited_seconds) AS waited_seconds,
       CASE WHEN COUNT(*) = COUNT(loss) THEN SUM(loss) END AS loss, SUM(correct) AS correct
FROM block GROUP BY run_id, phase, position;

-- Training only; totals over totals, never a mean of rates.
CREATE VIEW training AS
SELECT run_id,
       SUM(images)                          AS images,
       SUM(seconds)                         AS seconds,
       SUM(images) / SUM(seconds)           AS images_per_second,
       SUM(images) / SUM(processor_seconds) AS images_per_processor_second,
       SUM(waited_seconds) / SUM(seconds)   AS waiting
FROM step_block WHERE phase = 'train' GROUP BY run_id;

-- How far training was at the end of each block; only its own clock counts, not that of evaluation.
CREATE VIEW progress AS
SELECT run_id, position, loss, correct, images AS block_images,
       SUM(steps) OVER so_far AS steps, SUM(images) OVER so_far AS images, SUM(seconds) OVER so_far AS seconds
FROM step_block WHERE phase = 'train' WINDOW so_far AS (PARTITION BY run_id ORDER BY position);

CREATE VIEW test AS
SELECT run_id, steps, 1.0 * SUM(correct) / SUM(images) AS accuracy, SUM(loss) / SUM(images) AS loss,
       SUM(images) AS images, MAX(seconds) AS seconds,
       LAG(steps, 1, 0) OVER (PARTITION BY run_id ORDER BY steps) AS previous
FROM evaluation GROUP BY run_id, steps;

-- What each epoch, or whatever lies between two evaluations, has led to; the training accuracy is that of its own steps.
CREATE VIEW epoch AS
SELECT test.run_id, test.steps, test.accuracy AS test_accuracy, test.loss AS test_loss, test.seconds AS test_seconds,
       MAX(progress.images) AS images, MAX(progress.seconds) AS seconds,
       1.0 * SUM(progress.correct) / SUM(progress.block_images) AS train_accuracy,
       SUM(progress.loss) / SUM(progress.block_images) AS train_loss
FROM test JOIN progress ON progress.run_id = test.run_id
     AND progress.steps > test.previous AND progress.steps <= test.steps
GROUP BY test.run_id, test.steps;

-- The first step compiles, chooses kernels and allocates.
CREATE VIEW first_step AS
SELECT run_id, SUM(seconds) AS seconds FROM step_block WHERE phase = 'compile' GROUP BY run_id;
