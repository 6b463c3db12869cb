//! A curl command, as people keep it and browsers copy it: URL, method, header fields, body, user.
//!
//! Words are taken apart as a POSIX shell would (shlex). An option that changes what is sent and is not known here is
//! refused, one that changes only what curl prints is passed over.
//! Not here: several URLs, files in place of data, forms of several parts, `$'…'`.

use super::{Imported, apart, field, is_written_anyway, shown};
use base64::Engine as _;
use model::workload::http::RequestAsked;

/// Options that say nothing of the request, and have no value.
const SILENT: &[&str] = &[
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-v",
    "--verbose",
    "-i",
    "--include",
    "-f",
    "--fail",
    "-N",
    "--no-buffer",
    "-#",
    "--progress-bar",
    "--http1.1",
    "--no-keepalive",
    "--globoff",
    "-g",
];
/// The same, with a value.
const SILENT_WITH_VALUE: &[&str] =
    &["-o", "--output", "-w", "--write-out", "-m", "--max-time", "--connect-timeout", "--retry"];

/// Reads a command.
pub(super) fn read(text: &str) -> Result<Imported, String> {
    if text.contains("$'") {
        return Err("expected words in plain quotes, got $'…', which only some shells know: write it in '…'".to_owned());
    }
    // A line that ends in a backslash goes on.
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let words = shlex::split(&text).ok_or("expected a command whose quotes are closed")?;
    let mut words = words.into_iter();
    if words.next().as_deref() != Some("curl") {
        return Err("expected a command that begins with curl".to_owned());
    }
    let (mut urls, mut notes) = (Vec::new(), Vec::new());
    let mut request = RequestAsked::default();
    let mut data: Vec<String> = Vec::new();
    let (mut in_query, mut is_json) = (false, false);
    let mut words = words.flat_map(separate);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("expected a value behind {word}, got none"));
        match word.as_str() {
            "-X" | "--request" => request.method = Some(value()?),
            "-H" | "--header" => {
                let line = value()?;
                let (name, of_name) = line.split_once(':').unwrap_or((&line, ""));
                if !is_written_anyway(name.trim()) {
                    request.headers.push(field(name.trim(), of_name.trim()));
                }
            }
            "-A" | "--user-agent" => request.headers.push(field("User-Agent", &value()?)),
            "-e" | "--referer" => request.headers.push(field("Referer", &value()?)),
            "-b" | "--cookie" => {
                let cookies = value()?;
                if !cookies.contains('=') {
                    return Err(format!("expected cookies as NAME=VALUE, got the file '{}'", shown(&cookies)));
                }
                request.headers.push(field("Cookie", &cookies));
            }
            "-u" | "--user" => {
                let encoded = base64::engine::general_purpose::STANDARD.encode(value()?);
                request.headers.push(field("Authorization", &format!("Basic {encoded}")));
            }
            "-d" | "--data" | "--data-ascii" | "--data-raw" | "--data-binary" | "--json" => {
                let text = value()?;
                if text.starts_with('@') && word != "--data-raw" {
                    return Err(format!(
                        "expected data, got the file '{}': put body_file into what is written",
                        shown(&text)
                    ));
                }
                is_json |= word == "--json";
                data.push(text);
            }
            "-G" | "--get" => in_query = true,
            "-I" | "--head" => request.method = Some("HEAD".to_owned()),
            "--url" => urls.push(value()?),
            "-L" | "--location" => notes.push("redirects are not followed".to_owned()),
            "-k" | "--insecure" => notes.push("certificates were not verified: add --insecure".to_owned()),
            "--compressed" => request.headers.push(field("Accept-Encoding", "gzip, deflate")),
            other if SILENT.contains(&other) => {}
            other if SILENT_WITH_VALUE.contains(&other) => drop(value()?),
            other if other.starts_with('-') && other.len() > 1 => {
                return Err(format!("the option '{}' of curl is not known: leave it out", shown(other)));
            }
            _ => urls.push(word),
        }
    }
    let [url] = &urls[..] else {
        return Err(format!("expected one URL, got {}", urls.len()));
    };
    let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
    let (server, mut path) = apart(&url)?;
    if !data.is_empty() {
        let joined = data.join("&");
        if in_query {
            path = format!("{path}{}{joined}", if path.contains('?') { '&' } else { '?' });
        } else {
            let has_type =
                request.headers.iter().any(|line| line.expose_text().to_ascii_lowercase().starts_with("content-type:"));
            if !has_type {
                let kind = if is_json { "application/json" } else { "application/x-www-form-urlencoded" };
                request.headers.push(field("Content-Type", kind));
            }
            request.body = Some(joined.into());
        }
    }
    request.path = path.into();
    Ok(Imported { url: server, requests: vec![request], notes })
}

/// Short options that stand together, and values that stand behind theirs, as words of their own.
fn separate(word: String) -> Vec<String> {
    const TAKES_VALUE: &str = "XHAebudowm";
    if let Some((option, value)) = word.split_once('=').filter(|(option, _)| option.starts_with("--")) {
        return vec![option.to_owned(), value.to_owned()];
    }
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty() && !letters.starts_with('-'))
    else {
        return vec![word];
    };
    let mut words = Vec::new();
    for (at, letter) in letters.char_indices() {
        words.push(format!("-{letter}"));
        let rest = &letters[at + letter.len_utf8()..];
        if TAKES_VALUE.contains(letter) && !rest.is_empty() {
            words.push(rest.to_owned());
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::{TextKind, read};

    #[test]
    fn commands_are_read_as_curl_reads_them() {
        for (text, expected) in [
            ("curl http://h/a?b", "http://h | None /a?b | | "),
            ("curl h.test:81", "http://h.test:81 | None / | | "),
            (
                "curl -sSXPUT -H'X-A: 1' \\\n  -d a=1 --data b=2 https://h/",
                "https://h | PUT / | X-A: 1; Content-Type: application/x-www-form-urlencoded | a=1&b=2",
            ),
            (
                "curl --json '{\"a\": \"b c\"}' --url http://h/",
                "http://h | None / | Content-Type: application/json | {\"a\": \"b c\"}",
            ),
            ("curl -G -d q=1 http://h/?p=2 -o /dev/null", "http://h | None /?p=2&q=1 | | "),
            (
                "curl --request=POST -u Aladdin:'open sesame' http://h/ -H 'Content-Length: 3'",
                "http://h | POST / | Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== | ",
            ),
            ("curl -I http://h/", "http://h | HEAD / | | "),
        ] {
            let imported = read(TextKind::Curl, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let r = &imported.requests[0];
            let fields: Vec<_> = r.headers.iter().map(|line| line.expose_text().into_owned()).collect();
            let body = r.body.as_ref().map(|body| body.expose_text().into_owned()).unwrap_or_default();
            let method = r.method.as_deref().unwrap_or("None");
            let fields = if fields.is_empty() { String::new() } else { format!("{} ", fields.join("; ")) };
            assert_eq!(format!("{} | {method} {} | {fields}| {body}", imported.url, r.path.expose_text()), expected);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "",
            "wget http://h/",
            "curl",
            "curl http://a/ http://b/",
            "curl -X",
            "curl --form a=b http://h/",
            "curl 'http://h/",
            "curl -d @file http://h/",
            "curl $'http://h/'",
            "curl -b cookies.txt http://h/",
            "curl ftp://h/",
            "curl -F a=b http://h/",
        ] {
            let error = read(TextKind::Curl, bad).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{bad}: {error}");
        }
    }
}
