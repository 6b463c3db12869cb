//! `plimsoll import har|openapi|curl`: requests that others have written, printed as a file for `load --requests-from`.
//!
//! The file begins with the command that runs it. What was left out goes to stderr, so that the file can be redirected.

use crate::args::import::ImportArgs;
use crate::exit::{Exit, Failure};
use model::plain::plain;
use model::template::is_template;
use model::workload::http::RequestAsked;
use resolve::import::{Imported, TEXT_BYTES_MAX, TextKind, read};
use serde::Serialize;
use std::io::{Read, Write};

/// The file that is written.
#[derive(Debug, Serialize)]
struct RequestsFile {
    request: Vec<RequestAsked>,
}

/// Reads the text and prints the file.
pub fn run(args: &ImportArgs, kind: TextKind) -> Result<Exit, Failure> {
    let of_readings = [
        ("--every", args.every.is_some()),
        ("--started", args.started.is_some()),
        ("--first-interval", args.first_interval),
        ("--record", args.record.is_some()),
        ("--no-record", args.no_record),
        ("--json", args.json),
    ];
    if let Some((flag, _)) = of_readings.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{flag} is for readings of other instruments, and this text has requests: leave it out"
        )));
    }
    let text = text(args, kind)?;
    let imported = read(kind, &text).map_err(|why| Failure::usage(format!("import: {why}")))?;
    for note in &imported.notes {
        crate::commands::tell(note);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(file(imported)?.as_bytes())?;
    Ok(Exit::Fine)
}

fn text(args: &ImportArgs, kind: TextKind) -> Result<String, Failure> {
    let name = args.file.display().to_string();
    if kind == TextKind::Curl && name != "-" {
        return Ok(name);
    }
    let bytes = if name == "-" {
        let mut bytes = Vec::new();
        let read = || std::io::stdin().lock().take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes);
        resolve::files::patiently(crate::commands::tell, "reading stdin until its end", read)?;
        if bytes.len() as u64 > TEXT_BYTES_MAX {
            return Err(Failure::usage(format!("import: expected at most {TEXT_BYTES_MAX} bytes, got more")));
        }
        bytes
    } else {
        resolve::files::read(&args.file, TEXT_BYTES_MAX, crate::commands::tell)
            .map_err(|error| Failure::usage(format!("expected to read the text from {name}, but {error}")))?
    };
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("import: expected UTF-8, and {name} is not")))
}

/// The file as TOML. What is secret is written as it is: it is what was asked for.
fn file(imported: Imported) -> Result<String, Failure> {
    let Imported { url, mut requests, .. } = imported;
    for request in &mut requests {
        request.path = request.path.kept();
        request.headers.iter_mut().for_each(|line| *line = line.kept());
        request.body = request.body.as_ref().map(model::Secret::kept);
    }
    let all = |request: &RequestAsked| {
        let texts = request.headers.iter().chain(&request.body).chain([&request.path]);
        texts.map(|text| is_template(text.expose())).collect::<Vec<_>>()
    };
    // A document's parameters are columns; of what was sent once, braces are braces.
    let has_columns = requests.iter().any(|request| is_template(request.path.expose()));
    let has_braces = requests.iter().flat_map(all).any(|is| is);
    let more = if has_braces && !has_columns { " --no-templates" } else { "" };
    let toml = toml::to_string(&RequestsFile { request: requests })
        .map_err(|error| Failure::could_not_run(format!("the requests cannot be written as TOML: {error}")))?;
    let command = format!("plimsoll load '{url}' --requests-from FILE --sequence{more}");
    Ok(format!(
        "# {}\n# Save this as FILE. It may hold credentials: keep it as secret as where it is from.\n\n{toml}",
        plain(&command)
    ))
}
