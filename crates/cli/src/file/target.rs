//! `[target]` of a scenario file: a command that is started for the run, and what it may use.
//!
//! Where the load goes is still the load's `url`; a target that runs already needs no `[target]`.

use super::place::Place;
use super::{Reader, keys};
use crate::exit::Failure;
use model::units;
use session::target::{Addresses, Limits, Spec, UP};
use std::path::PathBuf;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Every key, and what it is; for errors and for the schema.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "The command that starts the server, for a shell; it must not go to the background by itself"),
    (
        "ready-line",
        "A text in a line that it prints when it is ready [default: it is when somebody listens where the load goes]",
    ),
    ("ready-within", "How long it may take to be ready [default: 10s]"),
    ("output", "File for what it prints [default: one of its own in $XDG_STATE_HOME/plimsoll/targets]"),
    ("cpus", "CPUs' worth of time it may use, such as 0.5; makes a control group, as root [default: no limit]"),
    ("memory", "Memory it may use, such as 256MiB; makes a control group, as root [default: no limit]"),
    ("restart", "What happens where it ends by itself: 'never', or 'on-exit', it is started again [default: never]"),
    (
        "namespace",
        "A network namespace of its own, as root: true, or its address in it, the second of four such as 10.77.0.2 [default: none; with true 198.18.0.2]",
    ),
];

/// What may stand behind a key, in the schema's words.
pub fn types(key: &str) -> &'static [&'static str] {
    match key {
        "namespace" => &["string", "boolean"],
        "restart" => &["string"],
        _ => &["string", "number"],
    }
}

/// As it stands in a file.
#[derive(Debug, Clone)]
pub struct TargetPart {
    spec: Spec,
}

impl TargetPart {
    pub(super) fn read(reader: &Reader<'_>, table: &DeTable<'_>, place: &Place) -> Result<Self, Failure> {
        let mut spec = Spec {
            command: String::new(),
            ready_line: None,
            ready_within: UP,
            output: None,
            limits: Limits::default(),
            restart: false,
            namespace: None,
            fixed_addresses: false,
            journal: PathBuf::new(),
        };
        for (name, value) in table.iter() {
            let name_place = reader.source.place(name.span().start);
            let name = &**name.get_ref();
            if KEYS.iter().all(|(known, _)| *known != name) {
                return Err(keys::unknown(name, &name_place, KEYS.iter().map(|(known, _)| *known)));
            }
            if let ("namespace", DeValue::Boolean(is_wanted)) = (name, value.get_ref()) {
                spec.namespace = is_wanted.then_some(Addresses::DEFAULT);
                continue;
            }
            let (text, place) = reader.text(name, value)?;
            let wrong =
                |expected: &str| place.wrong(format!("{name}: expected {expected}, got '{}'", text.escape_debug()));
            match name {
                "command" if text.trim().is_empty() => {
                    return Err(wrong("a command, such as 'nginx -g \"daemon off;\"'"));
                }
                "command" => spec.command = text,
                "ready-line" if text.is_empty() => return Err(wrong("a text in a line that the command prints")),
                "ready-line" => spec.ready_line = Some(text),
                "ready-within" => {
                    let ns = units::duration_ns(&text).map_err(|error| wrong(error.expected))?;
                    spec.ready_within = Duration::from_nanos(ns);
                }
                "output" => spec.output = Some(PathBuf::from(text)),
                "cpus" => {
                    let cpus = text.parse::<f64>().ok().filter(|cpus| *cpus >= 0.01 && cpus.is_finite());
                    spec.limits.cpus =
                        Some(cpus.ok_or_else(|| wrong("CPUs' worth of time of at least 0.01, such as 1.5"))?);
                }
                "restart" => {
                    spec.restart = match &*text {
                        "on-exit" => true,
                        "never" => false,
                        _ => return Err(wrong("'on-exit' or 'never'")),
                    };
                }
                "namespace" => {
                    let addresses = text.parse().ok().and_then(Addresses::of_target);
                    let expected = "true, or an IPv4 address that is the second of four, such as 10.77.0.2";
                    spec.namespace = Some(addresses.ok_or_else(|| wrong(expected))?);
                }
                _ => {
                    let bytes = units::size_bytes(&text).map_err(|error| wrong(error.expected))?;
                    spec.limits.memory_bytes = Some(bytes);
                }
            }
        }
        if spec.command.is_empty() {
            return Err(
                place.wrong("command: expected the command that starts the target, got none: name it below [target]")
            );
        }
        Ok(TargetPart { spec })
    }

    /// What is started; its output goes to a file of its own where none was named.
    ///
    /// # Errors
    /// There is no folder to keep things in.
    pub fn spec(&self) -> Result<Spec, Failure> {
        let journal = session::check::journal_folder()?;
        let output = match &self.spec.output {
            Some(path) => path.clone(),
            None => session::target::output_file().map_err(|error| Failure::could_not_run(error.to_string()))?,
        };
        Ok(Spec { journal, output: Some(output), ..self.spec.clone() })
    }
}
