//! The tables of a recording, as every version of the format has them.
//!
//! Figures that grow with the model (counters, plan, snapshots) are JSON, so a new field is no new format; what
//! is searched or summed is a column. Histograms are HdrHistogram V2 blobs, one for each kind that holds something.

/// `application_id` of a recording: "Plim".
pub const APPLICATION_ID: u32 = 0x506c_696d;

/// The format this version writes: SQLite's `user_version`.
pub const VERSION: usize = 1;

/// The tables of [`VERSION`].
pub const CREATE: &str = "
CREATE TABLE run(
    id INTEGER PRIMARY KEY CHECK (id = 1),
    started_at_unix_ns INTEGER NOT NULL,
    target TEXT NOT NULL,
    capsule TEXT NOT NULL,
    plan TEXT NOT NULL,
    requests INTEGER NOT NULL DEFAULT 0,
    end TEXT NOT NULL DEFAULT 'partial',
    totals TEXT,
    samplers TEXT,
    diagnosis TEXT,
    reason TEXT
);
CREATE TABLE tick(
    id INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    row TEXT NOT NULL,
    figures TEXT NOT NULL
);
CREATE TABLE histogram(
    id INTEGER PRIMARY KEY,
    tick INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE total_histogram(
    kind TEXT PRIMARY KEY,
    body BLOB NOT NULL
);
CREATE TABLE snapshot(
    id INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
CREATE TABLE event(
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);
";

/// The tables that must be there in every version.
pub const TABLES: [&str; 6] = ["run", "tick", "histogram", "total_histogram", "snapshot", "event"];
