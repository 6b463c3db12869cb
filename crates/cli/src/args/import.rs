//! Arguments of `plimsoll import`.

use super::values;
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use observe::import::{FORMATS, Format};
use resolve::import::TextKind;
use std::path::PathBuf;

/// Which text, how it is to be read, and what becomes of it.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// What printed it
    #[arg(value_name = "FORMAT", value_parser = format())]
    pub format: ImportFormat,
    /// The file with the text, or '-' for stdin; of curl the command itself
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Time between two readings, of vmstat without -t [default: 1s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_EVERY", value_parser = values::duration_ns)]
    pub every: Option<u64>,
    /// When the text begins, such as 2026-11-21T19:46:05Z [default: as the text says]
    #[arg(long, value_name = "RFC3339", env = "PLIMSOLL_STARTED", value_parser = values::moment_ns)]
    pub started: Option<u64>,
    /// The first row is of an interval and not since boot: vmstat was run with -y
    #[arg(long, env = "PLIMSOLL_FIRST_INTERVAL", value_parser = BoolishValueParser::new())]
    pub first_interval: bool,
    /// Write the recording here [default: a file of its own in $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_RECORD")]
    pub record: Option<PathBuf>,
    /// Keep no recording
    #[arg(long, env = "PLIMSOLL_NO_RECORD", value_parser = BoolishValueParser::new(), conflicts_with = "record")]
    pub no_record: bool,
    /// Print the report as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// What a text is, and so what becomes of it.
#[derive(Debug, Clone, Copy)]
pub enum ImportFormat {
    /// Another instrument's readings: a recording.
    Readings(&'static Format),
    /// Requests that others have written: a file for `load --requests-from`.
    Requests(TextKind),
}

/// Texts with requests in them: name, what it is in help, kind.
const REQUESTS: [(&str, &str, TextKind); 3] = [
    ("har", "Requests of a browser (HTTP archive): prints a file for load --requests-from", TextKind::Har),
    ("openapi", "Requests of an OpenAPI 3 document (JSON): prints such a file", TextKind::OpenApi),
    ("curl", "The request of a curl command, as one word or on stdin: prints such a file", TextKind::Curl),
];

fn format() -> impl TypedValueParser<Value = ImportFormat> {
    let readings = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    let requests = REQUESTS.iter().map(|(name, about, _)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(readings.chain(requests)).try_map(|name| {
        let readings = || FORMATS.iter().find(|format| format.name == name).map(ImportFormat::Readings);
        let of_requests = REQUESTS.iter().find(|(known, ..)| *known == name);
        of_requests.map(|(.., kind)| ImportFormat::Requests(*kind)).or_else(readings).ok_or("expected a format")
    })
}
