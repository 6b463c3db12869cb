//! Why a protocol cannot be set up from a plan.
//!
//! Every case is a fault of what was asked for, found before the first byte is sent: each says what was expected, what
//! was there, and what to change. Failures of replies are [`crate::Failure`], not errors.

/// A plan's workload that cannot be put on the wire.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The plan has no request at all.
    #[error("the workload has no request; name at least one URL")]
    NoRequests,
    /// A weight is not a share.
    #[error("request {request} ({target}) has weight {weight}; weights are finite numbers of at least 0")]
    Weight {
        /// Index in the plan's requests.
        request: usize,
        /// Its target.
        target: String,
        /// The weight given.
        weight: f64,
    },
    /// All requests of an origin have weight 0.
    #[error("all requests of origin {origin} have weight 0; give at least one of them a weight above 0")]
    NoWeight {
        /// Index in the plan's origins.
        origin: u16,
    },
    /// A byte that would end or split the line it stands in.
    #[error(
        "request {request}: its {part} has the byte {byte:#04x} at offset {offset}, which HTTP/1.1 forbids there; take it out or percent-encode it"
    )]
    ForbiddenByte {
        /// Index in the plan's requests.
        request: usize,
        /// Which part: method, target, header name or the header's name itself.
        part: String,
        /// The byte.
        byte: u8,
        /// Where in the part.
        offset: usize,
    },
    /// More commands than can be told apart.
    #[error("the mix has {got} commands; at most {max} can be told apart", max = model::resp::COMMANDS_MAX)]
    TooManyCommands {
        /// How many.
        got: usize,
    },
    /// Several values in one word, of sizes that vary.
    #[error(
        "the command '{command}' has several {{value}} in one word, which needs values of one size; give them a word each"
    )]
    ManyValues {
        /// Its name.
        command: String,
    },
    /// A part that must not be empty is.
    #[error("request {request}: its {part} is empty")]
    Empty {
        /// Index in the plan's requests.
        request: usize,
        /// Which part.
        part: &'static str,
    },
    /// A `Content-Length` of the user's own that is not the body's.
    #[error(
        "request {request}: the header Content-Length says {given:?}, the body has {actual} bytes; leave the header out, it is added"
    )]
    ContentLength {
        /// Index in the plan's requests.
        request: usize,
        /// The header's value.
        given: String,
        /// The body's length, bytes.
        actual: usize,
    },
    /// The body's bytes are not with the plan.
    #[error(
        "request {request}: the body should have {expected} bytes, {got} are there; a plan read back from a recording has no bodies"
    )]
    BodyMissing {
        /// Index in the plan's requests.
        request: usize,
        /// Length by the plan, bytes.
        expected: u64,
        /// Bytes there.
        got: usize,
    },
    /// A request longer than can be addressed.
    #[error("request {request} has {length} bytes; at most 4294967295 can be sent")]
    RequestTooLarge {
        /// Index in the plan's requests.
        request: usize,
        /// Its length with its head, bytes.
        length: usize,
    },
    /// A text with braces that is no template.
    #[error("request {request} is no template: {what}")]
    NoTemplate {
        /// Index in the plan's requests.
        request: usize,
        /// What is wrong, and where.
        what: String,
    },
    /// A name between braces that nothing has.
    #[error(
        "request {request}: nothing is called '{name}'; expected a column of the data or a value that is taken from a reply"
    )]
    UnknownName {
        /// Index in the plan's requests.
        request: usize,
        /// The name.
        name: String,
    },
    /// The rows are not with the plan.
    #[error("the rows of {path} are not there; a plan read back from a recording has no data")]
    DataMissing {
        /// The file.
        path: String,
    },
    /// Keys that workers cannot share out.
    #[error(
        "{keys} keys cannot be shared out to {workers} workers, each of which deletes its own alone; use as many keys at least, or fewer threads"
    )]
    TooFewKeys {
        /// How many there are.
        keys: u32,
        /// Who are to have some each.
        workers: u16,
    },
    /// Not a SHA-256 in hex.
    #[error("request {request}: {given:?} is not a SHA-256: expected 64 hexadecimal digits (as sha256sum prints them)")]
    Digest {
        /// Index in the plan's requests.
        request: usize,
        /// What was given.
        given: String,
    },
    /// Not a regular expression.
    #[error("request {request}: the body's regular expression cannot be used: {source}")]
    Regex {
        /// Index in the plan's requests.
        request: usize,
        /// What is wrong with it, and where.
        source: Box<regex::Error>,
    },
    /// An echo workload without a size.
    #[error("the list of echo payload sizes is empty; name at least one size")]
    NoSizes,
    /// An echo payload that is empty or too large.
    #[error("an echo payload of {size} bytes cannot be sent; sizes are 1 to {max} bytes", max = model::limits::ECHO_BYTES_MAX)]
    Size {
        /// The size, bytes.
        size: u32,
    },
    /// A range of echo payload sizes that is the wrong way round.
    #[error("the range of echo payload sizes {low} to {high} is empty; write the smaller size first")]
    SizeRange {
        /// Its start, bytes.
        low: u32,
        /// Its end, bytes.
        high: u32,
    },
}
