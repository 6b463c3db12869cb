//! HTTP archives, HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>): each entry's request, of the first entry's
//! server. What went to other servers is left out, and counted.

use super::{Imported, apart, field, is_written_anyway};
use model::workload::http::RequestAsked;
use serde_json::Value;

/// Reads an archive.
pub(super) fn read(text: &str) -> Result<Imported, String> {
    let archive: Value = serde_json::from_str(text).map_err(|error| format!("expected a HAR file ({error})"))?;
    let entries = archive.pointer("/log/entries").and_then(Value::as_array);
    let entries = entries.ok_or("expected a HAR file with log.entries, which is not there")?;
    let mut imported = Imported { url: String::new(), requests: Vec::new(), notes: Vec::new() };
    let (mut elsewhere, mut not_http) = (0u64, 0u64);
    for entry in entries {
        let word = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        let Ok((server, path)) = apart(word("/request/url").unwrap_or_default()) else {
            not_http += 1;
            continue;
        };
        if imported.url.is_empty() {
            imported.url = server.clone();
        }
        if server != imported.url {
            elsewhere += 1;
            continue;
        }
        let headers = entry.pointer("/request/headers").and_then(Value::as_array).into_iter().flatten();
        let headers = headers.filter_map(|header| {
            let (name, value) = (header.get("name")?.as_str()?, header.get("value")?.as_str()?);
            (!is_written_anyway(name)).then(|| field(name, value))
        });
        imported.requests.push(RequestAsked {
            name: Some(format!("{:03} {}", imported.requests.len() + 1, path.split('?').next().unwrap_or_default())),
            method: word("/request/method").map(str::to_owned),
            path: path.as_str().into(),
            headers: headers.collect(),
            body: word("/request/postData/text").filter(|body| !body.is_empty()).map(Into::into),
            ..RequestAsked::default()
        });
    }
    for (count, what) in [(elsewhere, "went to other servers"), (not_http, "were not of http:// or https://")] {
        if count > 0 {
            imported.notes.push(format!("{count} requests {what} and are left out"));
        }
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::super::{TextKind, read};

    #[test]
    fn requests_of_one_server_are_taken() {
        let entry = |url: &str, method: &str, more: &str| {
            format!(
                r#"{{"request":{{"method":"{method}","url":"{url}","headers":[{{"name":"Host","value":"h"}},{{"name":"X-A","value":"1"}},{{"name":":path","value":"/"}}]{more}}}}}"#
            )
        };
        let entries = [
            entry("http://h.test/a?b=c", "GET", ""),
            entry("https://cdn.test/x.js", "GET", ""),
            entry("http://h.test/login", "POST", r#","postData":{"mimeType":"application/json","text":"{\"a\":1}"}"#),
            entry("data:text/plain,x", "GET", ""),
        ];
        let text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
        let imported = read(TextKind::Har, &text).unwrap();
        assert_eq!(imported.url, "http://h.test");
        let asked: Vec<String> = imported
            .requests
            .iter()
            .map(|r| format!("{} {}", r.method.as_deref().unwrap(), r.path.expose_text()))
            .collect();
        assert_eq!(asked, ["GET /a?b=c", "POST /login"]);
        assert_eq!(imported.requests[1].headers.len(), 1);
        assert_eq!(imported.requests[1].body.as_ref().unwrap().expose(), br#"{"a":1}"#);
        assert_eq!(imported.notes.len(), 2);
        for bad in ["", "{}", "[]", r#"{"log":{"entries":[]}}"#, r#"{"log":{"entries":[1,{"request":7}]}}"#] {
            assert_eq!(read(TextKind::Har, bad).unwrap_err().lines().count(), 1, "{bad}");
        }
    }
}
