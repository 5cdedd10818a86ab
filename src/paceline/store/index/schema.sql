-- An index over the run folders. They are the record; everything here can be made again from them.

CREATE TABLE plan (
    id       TEXT PRIMARY KEY,   -- sortable by time
    suite    TEXT NOT NULL,
    command  TEXT NOT NULL,
    interval_target REAL,        -- a cell whose interval is wider is noisy; NULL is the usual limit
    layout   TEXT NOT NULL,      -- the shape of its table
    quick    INTEGER NOT NULL,   -- whether it is scaled down for a small machine
    older_runs TEXT NOT NULL,    -- those from before it that count as done: none, ok or all
    replay   INTEGER AS (command LIKE 'paceline replay %') -- it is shown by itself and takes no other plan's place
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
CREATE INDEX plan_run_key ON plan_run(key, plan_id);

CREATE TABLE left_out (          -- what a newer version wrote, so that this one cannot read it
    name     TEXT PRIMARY KEY,   -- of a run or a plan
    reason   TEXT NOT NULL       -- in a sentence for the user
);

CREATE TABLE setup (             -- what runs ran with beside the settings of their cells, once for all that are alike
    id       TEXT PRIMARY KEY,
    facts    TEXT NOT NULL       -- as JSON, with PATH among the variables
);

CREATE TABLE run (
    id            TEXT PRIMARY KEY,
    key           TEXT NOT NULL, -- the same for runs that measured the same thing
    cell          TEXT NOT NULL,
    repeat        INTEGER NOT NULL,
    machine       TEXT NOT NULL, -- its id, the same after an update of its kernel or driver
    machine_description TEXT NOT NULL, -- with kernel and driver as they were
    quota_cores   REAL,          -- as much time of its cores a container could use; NULL where that was all
    cards         TEXT NOT NULL, -- what each of its GPUs is, as a JSON list; empty for processors
    framework_version TEXT NOT NULL,
    fingerprint   TEXT NOT NULL, -- of the framework's environment
    worker_code   TEXT NOT NULL, -- hash of what measured it
    setup         TEXT NOT NULL REFERENCES setup(id),
    shares        TEXT NOT NULL, -- images of a step on each device, as a JSON list
    started       REAL NOT NULL,
    seconds       REAL NOT NULL, -- wall time of the whole run
    status        TEXT NOT NULL,
    phase         TEXT NOT NULL,
    kind          TEXT,
    message       TEXT,
    log_end       TEXT,
    remarks       TEXT NOT NULL  -- what went wrong beside it and did not make it fail, as a JSON list
);
CREATE INDEX run_key ON run(key, id);
CREATE INDEX run_cell ON run(cell);

CREATE TABLE block (             -- some steps, from idle devices to idle devices
    run_id            TEXT NOT NULL REFERENCES run(id),
    rank              INTEGER NOT NULL,
    position          INTEGER NOT NULL, -- within its phase
    phase             TEXT NOT NULL,
    steps             INTEGER NOT NULL,
    images            INTEGER NOT NULL,
    seconds           REAL NOT NULL,
    processor_seconds REAL NOT NULL,
    waited_seconds    REAL NOT NULL, -- for real images that were not ready
    involuntary_switches INTEGER, -- threads that had to leave their core; NULL where it was not counted
    loss              REAL,          -- summed over the images; NULL where training has diverged
    correct           INTEGER,       -- images that were right; NULL where it was not counted
    epoch             INTEGER        -- the pass over the data that it lies in; NULL where that is not known
);
CREATE INDEX block_run ON block(run_id);

CREATE TABLE evaluation (        -- one rank's part of the test images
    run_id  TEXT NOT NULL REFERENCES run(id),
    rank    INTEGER NOT NULL,
    steps   INTEGER NOT NULL,    -- of training before it
    images  INTEGER NOT NULL,
    loss    REAL,                -- summed
    correct INTEGER NOT NULL,
    seconds REAL NOT NULL,
    epoch   INTEGER              -- the last pass before it
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

CREATE TABLE value (             -- everything that was measured in a run, filled when it is indexed
    run_id   TEXT NOT NULL REFERENCES run(id),
    name     TEXT NOT NULL,      -- with its unit: images_per_second, memory_bytes
    position INTEGER NOT NULL,   -- of the process or GPU; 0 for what belongs to the whole run
    value    REAL NOT NULL,
    PRIMARY KEY (run_id, name, position)
) WITHOUT ROWID;

-- The run that stands in the table of a plan for each that it wants. Several plans may want the same: each has the
-- newest run from before the next of them, but none from before itself that it does not count as done; or, if it was cut
-- off, the first that came later, unless that is of a plan that measured all anew.
CREATE VIEW plan_result AS
SELECT plan_run.plan_id, plan_run.position, plan_run.key,
       COALESCE(
           (SELECT MAX(run.id) FROM run
            WHERE run.key = plan_run.key AND (run.id > plan.id OR plan.older_runs IN ('all', run.status))
              AND run.id < COALESCE((SELECT MIN(later.plan_id) FROM plan_run AS later
                                     WHERE later.key = plan_run.key AND later.plan_id > plan.id), '~')),  -- after all ids
           (SELECT MIN(run.id) FROM run
            WHERE run.key = plan_run.key AND run.id > plan.id
              AND run.id < COALESCE((SELECT MIN(later.plan_id)
                                     FROM plan_run AS later JOIN plan AS anew ON anew.id = later.plan_id
                                     WHERE later.key = plan_run.key AND later.plan_id > plan.id
                                       AND anew.older_runs = 'none'), '~'))
       ) AS run_id
FROM plan_run JOIN plan ON plan.id = plan_run.plan_id;

-- Ranks train side by side: their images add up, and the slowest of them sets the time. A block of training counts when
-- every rank that has begun has done it. While a run goes on, `Trained` says the same.
CREATE VIEW merged_block AS
SELECT run_id, phase, position, MAX(steps) AS steps, SUM(images) AS images, MAX(seconds) AS seconds,
       SUM(processor_seconds) AS processor_seconds, MAX(waited_seconds) AS waited_seconds,
       SUM(involuntary_switches) AS involuntary_switches,
       CASE WHEN COUNT(*) = COUNT(loss) THEN SUM(loss) END AS loss, SUM(correct) AS correct, MAX(epoch) AS epoch
FROM block GROUP BY run_id, phase, position
HAVING phase <> 'train' OR COUNT(*) >= (SELECT COUNT(DISTINCT rank) FROM phase WHERE phase.run_id = block.run_id);

-- The same, kept for each run when it is indexed: every table asks for it, and to merge thousands of runs takes a while.
CREATE TABLE step_block AS SELECT * FROM merged_block;
CREATE INDEX step_block_run ON step_block(run_id);

-- How far training was at the end of each block; only its own clock counts, not that of evaluation.
CREATE VIEW progress AS
SELECT run_id, position, loss, correct, epoch, images AS block_images,
       SUM(steps) OVER so_far AS steps, SUM(images) OVER so_far AS images, SUM(seconds) OVER so_far AS seconds
FROM step_block WHERE phase = 'train' WINDOW so_far AS (PARTITION BY run_id ORDER BY position);

CREATE VIEW test AS
SELECT run_id, steps, 1.0 * SUM(correct) / SUM(images) AS accuracy,
       CASE WHEN COUNT(*) = COUNT(loss) THEN SUM(loss) / SUM(images) END AS loss,
       SUM(images) AS images, MAX(seconds) AS seconds, MAX(epoch) AS epoch,
       LAG(steps, 1, 0) OVER (PARTITION BY run_id ORDER BY steps) AS previous
FROM evaluation GROUP BY run_id, steps;

-- What had been reached at each evaluation; loss and accuracy of training are those of the last epoch before it.
CREATE VIEW epoch AS
SELECT test.run_id, test.steps, test.accuracy AS test_accuracy, test.loss AS test_loss, test.seconds AS test_seconds,
       MAX(progress.images) AS images, MAX(progress.seconds) AS seconds,
       1.0 * SUM(progress.correct) / SUM(progress.block_images) AS train_accuracy,
       CASE WHEN COUNT(*) = COUNT(progress.loss) THEN SUM(progress.loss) / SUM(progress.block_images) END AS train_loss
FROM test JOIN progress ON progress.run_id = test.run_id
     AND progress.steps > test.previous AND progress.steps <= test.steps
     AND (progress.epoch IS NULL OR progress.epoch = test.epoch)
GROUP BY test.run_id, test.steps;

-- The next five have one row per run, whose columns become values. Training only; totals over totals, never a mean of
-- rates.
CREATE VIEW training AS
SELECT run_id,
       SUM(images)                          AS images,
       SUM(seconds)                         AS training_seconds,
       SUM(images) / SUM(seconds)           AS images_per_second,
       SUM(images) / SUM(processor_seconds) AS images_per_processor_second,
       SUM(waited_seconds) / SUM(seconds)   AS waiting,
       SUM(involuntary_switches) / SUM(seconds) AS switches_per_second
FROM step_block WHERE phase = 'train' GROUP BY run_id;

-- The first step compiles, chooses kernels and allocates.
CREATE VIEW first_step AS
SELECT run_id, SUM(seconds) AS first_step_seconds FROM step_block WHERE phase = 'compile' GROUP BY run_id;

-- Training accuracy is known without any evaluation, too.
CREATE VIEW last_pass AS
SELECT run_id, 1.0 * SUM(correct) / SUM(images) AS train_accuracy
FROM step_block WHERE phase = 'train' AND correct IS NOT NULL AND epoch IS NOT NULL
     AND epoch = (SELECT MAX(epoch) FROM step_block AS every
                  WHERE every.run_id = step_block.run_id AND phase = 'train' AND correct IS NOT NULL)
GROUP BY run_id;

CREATE VIEW last_evaluation AS
SELECT run_id, MAX(steps) AS evaluated_steps, test_accuracy, train_accuracy FROM epoch GROUP BY run_id;

CREATE VIEW evaluations AS
SELECT run_id, SUM(seconds) AS evaluation_seconds FROM test GROUP BY run_id;
