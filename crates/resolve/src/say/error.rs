//! Why a scenario makes no plan: the field, what was expected, what came, what to do. One sentence each.
//!
//! Fields are named as such: [`ResolveError::words`] leaves to whoever shows it how they are written.

use crate::requests::{self, data};
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::workload::PROTOCOLS;
use model::tls::TlsError;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// Why a scenario makes no plan.
#[derive(Debug)]
pub enum ResolveError {
    /// Nothing to put load on.
    NoUrl,
    /// A URL that cannot be used.
    BadUrl {
        /// As written.
        url: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// A scheme that is not spoken.
    UnknownScheme {
        /// As written.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// URLs of different protocols.
    MixedProtocols {
        /// The first URL.
        first: String,
        /// The first that differs from it.
        other: String,
    },
    /// A value outside what can be done.
    BadValue {
        /// The field.
        field: Field,
        /// What would be right.
        expected: Words,
        /// What came.
        got: String,
    },
    /// A file of data that has none.
    BadData {
        /// The file.
        path: PathBuf,
        /// Why, in half a sentence.
        why: String,
    },
    /// Text with braces that is no template.
    BadTemplate {
        /// Where it stands.
        field: Field,
        /// What is wrong with it.
        what: String,
    },
    /// Two things that cannot both be.
    Conflict {
        /// The field, with its value where that is what matters.
        what: Words,
        /// What it cannot be used with.
        with: Words,
        /// What to do.
        instead: Words,
    },
    /// Something is asked of another protocol than the URLs'.
    OtherWhat {
        /// The protocol of which it is asked.
        of: &'static str,
        /// The first URL.
        url: String,
    },
    /// A field that says nothing to the protocol of the URLs.
    OtherProtocol {
        /// The field, with its value where that is what matters.
        what: Words,
        /// The protocols or schemes it is for.
        for_protocol: String,
        /// The first URL.
        url: String,
    },
    /// TLS that cannot be set up as asked.
    Tls {
        /// The field.
        field: Field,
        /// Why not.
        source: TlsError,
    },
    /// Nobody to trust.
    NoAuthorities {
        /// The reason.
        why: String,
    },
    /// A file that cannot be read.
    CannotRead {
        /// The field.
        field: Field,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file with more than is taken of it.
    FileTooLarge {
        /// The field.
        field: Field,
        /// The file.
        path: PathBuf,
        /// The bound, bytes.
        most: u64,
        /// What it has, as half a sentence.
        source: io::Error,
    },
    /// More than fits.
    TooMuch {
        /// Of what.
        what: Words,
        /// The bound.
        most: u64,
        /// What came.
        got: u64,
        /// What to do.
        instead: Words,
    },
    /// A name without an address.
    NameNotFound {
        /// The name.
        name: String,
        /// The port it is wanted for.
        port: u16,
        /// What the resolver said.
        why: String,
    },
    /// A name that has addresses, but none of the family asked for.
    NoAddressOfFamily {
        /// The name.
        name: String,
        /// 4 or 6.
        version: u8,
        /// The addresses it has.
        got: String,
    },
    /// io_uring was asked for by name and cannot be used.
    NoUring {
        /// The reason.
        why: String,
    },
}

impl ResolveError {
    /// The sentence, with its fields as such.
    pub fn words(&self) -> Words {
        use ResolveError as E;
        match self {
            E::NoUrl => "expected a URL to put load on, got none: name one, such as http://127.0.0.1:8080/".into(),
            E::BadUrl { url, why } => format!("URL '{}': {why}", url.escape_debug()).into(),
            E::UnknownScheme { url, scheme } => {
                let forms: Vec<&str> = PROTOCOLS.iter().flat_map(|protocol| protocol.forms()).copied().collect();
                let (last, others) = forms.split_last().unwrap_or((&"", &[]));
                let shown = url.escape_debug();
                let others = others.join(", ");
                format!("URL '{shown}': scheme '{scheme}' is not spoken by this version: use {others}, or {last}")
                    .into()
            }
            E::OtherWhat { of, url } => {
                format!("expected {of} URLs for what is asked of {of}, got '{url}': name one, or leave that out").into()
            }
            E::MixedProtocols { first, other } => {
                format!("expected URLs of one protocol, got '{first}' and '{other}': put load on them in separate runs")
                    .into()
            }
            E::BadValue { field, expected, got } => {
                words![*field, ": expected ", expected, format!(", got '{}'", got.escape_debug())]
            }
            E::BadData { path, why } => {
                words![data::DATA, format!(": '{}' cannot be used: {why}", path.display())]
            }
            E::BadTemplate { field, what } => {
                words![*field, format!(": {what}; braces that are meant as they are go with "), requests::NO_TEMPLATES]
            }
            E::Conflict { what, with, instead } => words![what, " cannot be used with ", with, ": ", instead],
            E::OtherProtocol { what, for_protocol, url } => {
                words![what, format!(" is for {for_protocol} URLs, got '{url}': leave it out")]
            }
            E::Tls { field, source } => words![*field, format!(": {source}")],
            E::NoAuthorities { why } => words![
                format!("expected this machine to have certificate authorities to trust, but {why}: "),
                "install ca-certificates, name a file with ",
                Field::Ca,
                ", or verify nothing with ",
                Field::Insecure
            ],
            E::CannotRead { field, path, source } => words![
                *field,
                format!(
                    ": expected a file that can be read, got '{}' ({source}): check its path and permissions",
                    path.display()
                )
            ],
            E::FileTooLarge { field, path, most, source } => words![
                *field,
                format!(": expected at most {most} bytes, but '{}' {source}: name a smaller file", path.display())
            ],
            E::TooMuch { what, most, got, instead } => {
                words![what, format!(": expected at most {most}, got {got}: "), instead]
            }
            E::NameNotFound { name, port, why } => words![
                format!("expected '{name}' to have an address, but the resolver found none ({why}): "),
                format!("check the name with `getent ahosts {name}`, or give its address with "),
                (Field::Resolve, format!("{name}:{port}:ADDRESS"))
            ],
            E::NoAddressOfFamily { name, version, got } => words![
                format!("expected '{name}' to have an IPv{version} address, got only {got}: leave out "),
                (Field::IpVersion, version)
            ],
            E::NoUring { why } => words![
                (Field::Driver, "uring"),
                format!(": expected a kernel that allows io_uring, but {why}: leave "),
                Field::Driver,
                " out, or use ",
                (Field::Driver, "epoll")
            ],
        }
    }

    /// Whether what was written is at fault (exit status 2), and not what was found on the way (1).
    pub fn is_usage(&self) -> bool {
        match self {
            ResolveError::NoUrl
            | ResolveError::BadUrl { .. }
            | ResolveError::UnknownScheme { .. }
            | ResolveError::MixedProtocols { .. }
            | ResolveError::BadValue { .. }
            | ResolveError::BadData { .. }
            | ResolveError::BadTemplate { .. }
            | ResolveError::Conflict { .. }
            | ResolveError::OtherWhat { .. }
            | ResolveError::OtherProtocol { .. }
            | ResolveError::Tls { .. }
            | ResolveError::FileTooLarge { .. }
            | ResolveError::TooMuch { .. } => true,
            ResolveError::CannotRead { source, .. } => crate::files::is_no_file(source),
            ResolveError::NoAuthorities { .. }
            | ResolveError::NameNotFound { .. }
            | ResolveError::NoAddressOfFamily { .. }
            | ResolveError::NoUring { .. } => false,
        }
    }

    /// Why a file that a field names was not read.
    pub(crate) fn of_file(field: Field, path: &Path, most: u64, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::FileTooLarge => ResolveError::FileTooLarge { field, path, most, source },
            _ => ResolveError::CannotRead { field, path, source },
        }
    }

    pub(crate) fn bad_value(field: Field, expected: impl Into<Words>, got: impl ToString) -> Self {
        ResolveError::BadValue { field, expected: expected.into(), got: got.to_string() }
    }
}

/// With the fields' plain names.
impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().fmt(f)
    }
}

impl error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ResolveError::Tls { source, .. } => Some(source),
            ResolveError::CannotRead { source, .. } | ResolveError::FileTooLarge { source, .. } => Some(source),
            _ => None,
        }
    }
}
