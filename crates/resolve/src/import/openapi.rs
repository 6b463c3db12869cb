//! OpenAPI 3 documents as JSON (<https://spec.openapis.org/oas/v3.1.0>): a request for each operation, of the first server.
//!
//! Parameters in the path and required ones of the query become columns of data, `{petId}` the column `{{petId}}`. A body
//! is the example that the document has; an operation that needs one and has none is left out, and said.
//! Not here: YAML, references to other files, security schemes.

use super::{Imported, apart, field};
use model::workload::http::RequestAsked;
use serde_json::Value;

const METHODS: &[&str] = &["get", "head", "post", "put", "patch", "delete", "options"];
/// References that are followed from one place.
const REFERENCES_MAX: usize = 16;

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Imported, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| {
        format!("expected an OpenAPI document as JSON ({error}); one in YAML is converted by: yq -o json . FILE")
    })?;
    let paths = document.get("paths").and_then(Value::as_object);
    let paths = paths.ok_or("expected an OpenAPI document with paths, which are not there")?;
    let server = document.pointer("/servers/0/url").and_then(Value::as_str).unwrap_or_default();
    let mut imported = Imported { url: String::new(), requests: Vec::new(), notes: Vec::new() };
    let base = match apart(server) {
        Ok((url, path)) => {
            imported.url = url;
            path
        }
        Err(_) => {
            imported.url = "http://127.0.0.1:8080".to_owned();
            imported.notes.push("the document names no server: put yours in place of http://127.0.0.1:8080".to_owned());
            server.to_owned()
        }
    };
    let mut columns: Vec<String> = Vec::new();
    for (path, item) in paths {
        let of_path = item.get("parameters").and_then(Value::as_array);
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let method = method.to_ascii_uppercase();
            let of_operation = operation.get("parameters").and_then(Value::as_array);
            let parameters = of_path.into_iter().chain(of_operation).flatten().map(|p| followed(&document, p));
            let mut target = with_columns(path, &mut columns);
            let mut separator = '?';
            for parameter in parameters.filter(|p| p.get("in").and_then(Value::as_str) == Some("query")) {
                let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
                let is_needed = parameter.get("required").and_then(Value::as_bool) == Some(true);
                if is_needed && model::template::is_name(name) {
                    target.push_str(&format!("{separator}{name}={{{{{name}}}}}"));
                    separator = '&';
                    remember(&mut columns, name);
                }
            }
            let body = operation.get("requestBody").map(|body| followed(&document, body));
            let content = body.and_then(|body| body.pointer("/content/application~1json"));
            let example = content.and_then(|content| example(&document, content));
            if let (Some(body), None) = (body, &example)
                && body.get("required").and_then(Value::as_bool) == Some(true)
            {
                imported
                    .notes
                    .push(format!("{method} {} needs a body and has no example: it is left out", super::shown(path)));
                continue;
            }
            let name = operation.get("operationId").and_then(Value::as_str).map(str::to_owned);
            imported.requests.push(RequestAsked {
                name: Some(name.unwrap_or_else(|| format!("{method} {path}"))),
                headers: example.iter().map(|_| field("Content-Type", "application/json")).collect(),
                body: example.map(|example| example.to_string().into()),
                path: format!("/{}", format!("{}{target}", base.trim_end_matches('/')).trim_start_matches('/')).into(),
                method: Some(method),
                ..RequestAsked::default()
            });
        }
    }
    if !columns.is_empty() {
        imported.notes.push(format!("values come from data: add --data FILE with the columns {}", columns.join(", ")));
    }
    Ok(imported)
}

/// A path whose parameters are columns.
fn with_columns(path: &str, columns: &mut Vec<String>) -> String {
    let mut target = String::new();
    let mut rest = path;
    while let Some((before, (name, after))) = rest.split_once('{').and_then(|(b, r)| Some((b, r.split_once('}')?))) {
        target.push_str(before);
        // What cannot be a column's name stays as it is written.
        if model::template::is_name(name) {
            target.push_str(&format!("{{{{{name}}}}}"));
            remember(columns, name);
        } else {
            target.push_str(&format!("{{{name}}}"));
        }
        rest = after;
    }
    target + rest
}

fn remember(columns: &mut Vec<String>, name: &str) {
    if !columns.iter().any(|known| known == name) {
        columns.push(name.to_owned());
    }
}

/// What a reference within the document leads to.
fn followed<'d>(document: &'d Value, mut at: &'d Value) -> &'d Value {
    for _ in 0..REFERENCES_MAX {
        let Some(pointer) = at.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) else { break };
        let Some(next) = document.pointer(pointer) else { break };
        at = next;
    }
    at
}

/// The example of a body: its own, the first of several, or its schema's.
fn example<'d>(document: &'d Value, content: &'d Value) -> Option<&'d Value> {
    let first = |examples: &'d Value| followed(document, examples.as_object()?.values().next()?).get("value");
    let of_schema = || followed(document, content.get("schema")?).get("example");
    content.get("example").or_else(|| content.get("examples").and_then(first)).or_else(of_schema)
}

#[cfg(test)]
mod tests {
    use super::super::{TextKind, read};

    const DOCUMENT: &str = r##"{
        "openapi": "3.0.3",
        "servers": [{"url": "https://api.test/v1/"}],
        "paths": {
            "/pets/{petId}": {
                "parameters": [{"name": "petId", "in": "path", "required": true}],
                "get": {"operationId": "getPet", "parameters": [{"$ref": "#/components/parameters/Fields"}, {"name": "x", "in": "query"}]},
                "delete": {}
            },
            "/pets": {
                "post": {"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
                "put": {"requestBody": {"required": true, "content": {"application/json": {"schema": {}}}}}
            }
        },
        "components": {
            "parameters": {"Fields": {"name": "fields", "in": "query", "required": true}},
            "schemas": {"Pet": {"example": {"name": "Rex"}}, "Loop": {"$ref": "#/components/schemas/Loop"}}
        }
    }"##;

    #[test]
    fn operations_become_requests() {
        let imported = read(TextKind::OpenApi, DOCUMENT).unwrap();
        assert_eq!(imported.url, "https://api.test");
        let mut asked: Vec<String> = imported
            .requests
            .iter()
            .map(|r| {
                let body = r.body.as_ref().map(|body| body.expose_text().into_owned()).unwrap_or_default();
                format!(
                    "{}: {} {} {body}",
                    r.name.as_deref().unwrap(),
                    r.method.as_deref().unwrap(),
                    r.path.expose_text()
                )
            })
            .collect();
        asked.sort();
        assert_eq!(
            asked,
            [
                "DELETE /pets/{petId}: DELETE /v1/pets/{{petId}} ",
                "POST /pets: POST /v1/pets {\"name\":\"Rex\"}",
                "getPet: GET /v1/pets/{{petId}}?fields={{fields}} ",
            ]
        );
        assert!(imported.notes.iter().any(|note| note.contains("PUT /pets needs a body")), "{:?}", imported.notes);
        assert!(
            imported.notes.iter().any(|note| note.contains("petId, fields") || note.contains("fields, petId")),
            "{:?}",
            imported.notes
        );
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for bad in [
            "",
            "openapi: 3.0.0",
            "{}",
            r#"{"paths": 7}"#,
            r#"{"paths": {}}"#,
            r#"{"paths": {"/": {"get": []}, "/{": 7}}"#,
        ] {
            if let Err(error) = read(TextKind::OpenApi, bad) {
                assert_eq!(error.lines().count(), 1, "{bad}: {error}");
            }
        }
    }
}
