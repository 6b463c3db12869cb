//! The tables of a recording, as every version of the format has them.
//!
//! Figures that grow with the model (counters, plan, snapshots) are JSON, so a new field is no new format; what
//! is searched or summed is a column. Histograms are HdrHistogram V2 blobs, one for each kind that holds something.

/// `application_id` of a recording: "Plim".
pub const APPLICATION_ID: u32 = 0x506c_696d;

/// The format this version writes: SQLite's `user_version`. Format 2 is format 1 with a checksum of each row and a seal;
/// format 3 has the details of events, single requests and gaps; format 4 what the target's machine saw of such requests, merges
/// old ticks (`merging`), and its seal has sums of rows in any order; format 5 says of samples from which key on they may lack some
/// (`requests`).
pub const VERSION: usize = 5;

/// The first format with checksums.
pub const WITH_CHECKSUMS: usize = 2;

/// The first format whose events have details.
pub const WITH_DETAILS: usize = 3;

/// The first format with the table `request`.
const WITH_REQUESTS: usize = 3;

/// The first format with the table `split`.
const WITH_SPLIT: usize = 4;
/// The first format that says of samples from which key on they may lack some.
pub const WITH_BELOW: usize = 5;
/// The first format with merged ticks.
pub const WITH_MERGED: usize = 4;

/// The oldest format that is read as it is.
pub const READ_AS_IS: usize = 1;

/// The tables of [`VERSION`].
pub const CREATE: &str = "
CREATE TABLE run(
    id INTEGER PRIMARY KEY CHECK (id = 1),
    started_at_unix_ns INTEGER NOT NULL,
    target TEXT NOT NULL,
    capsule TEXT NOT NULL,
    plan TEXT NOT NULL,
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
    figures TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE histogram(
    id INTEGER PRIMARY KEY,
    tick INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE request(
    id INTEGER PRIMARY KEY,
    tick INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE split(
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE total_histogram(
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE snapshot(
    id INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE event(
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    details TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE merged(
    id INTEGER PRIMARY KEY,
    ticks INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE state(
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE seal(
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
";

/// The tables of many rows.
pub const ROWS: [&str; 9] =
    ["tick", "histogram", "request", "total_histogram", "snapshot", "event", "split", "merged", "state"];

/// The columns of each of [`ROWS`] that its rows' checksums are made of.
const COLUMNS: [&[&str]; ROWS.len()] = [
    &["sequence", "row", "figures"],
    &["tick", "kind", "body"],
    &["tick", "body"],
    &["kind", "body"],
    &["body"],
    &["at_ns", "kind", "text", "details"],
    &["body"],
    &["ticks", "body"],
    &["body"],
];

/// The columns of a table of [`ROWS`] that its rows' checksums are made of.
pub fn columns(table: &str, format: usize) -> &'static [&'static str] {
    let at = ROWS.iter().position(|name| *name == table);
    let columns = at.and_then(|at| COLUMNS.get(at)).copied().unwrap_or_default();
    // The details stand last.
    let has_all = table != "event" || format >= WITH_DETAILS;
    if has_all { columns } else { columns.split_last().map_or(columns, |(_, before)| before) }
}

/// The tables that must be there in a format.
pub fn tables(format: usize) -> impl Iterator<Item = &'static str> {
    let first_format = |table: &str| match table {
        "request" => WITH_REQUESTS,
        "split" => WITH_SPLIT,
        "merged" | "state" => WITH_MERGED,
        _ => 0,
    };
    let rows = ROWS.into_iter().filter(move |table| format >= first_format(table));
    ["run"].into_iter().chain(rows).chain((format >= WITH_CHECKSUMS).then_some(crate::integrity::seal::TABLE))
}

/// The table of events before [`WITH_DETAILS`].
const EVENT_WITHOUT_DETAILS: &str = "CREATE TABLE event(
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
)";

/// The text that made a table of a format with checksums, as SQLite keeps it.
pub fn text_of(table: &str, format: usize) -> Option<&'static str> {
    if table == "event" && format < WITH_DETAILS {
        return Some(EVENT_WITHOUT_DETAILS);
    }
    let head = format!("CREATE TABLE {table}(");
    let at = CREATE.find(&head)?;
    CREATE.get(at..)?.split(';').next()
}
