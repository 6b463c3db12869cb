//! The JSON Schema of scenario files, made of the same keys as their reader: for editors, and for who writes files by program.
//!
//! It says which keys there are and what shape their values have; whether a text is a duration is said when it is read.

use super::keys::{Key, Keys, Shape, URL};
use super::{canary, fault, phase, target, vary};
use serde_json::{Map, Value, json};

/// The schema as text.
pub fn text() -> String {
    format!("{:#}\n", schema(&Keys::new()))
}

fn schema(keys: &Keys) -> Value {
    let of = |is_of_run| keys.all().iter().filter(move |key| key.is_of_run == is_of_run).map(property);
    let mut load: Map<String, Value> = of(false).collect();
    load.insert("name".to_owned(), json!({"type": "string", "description": "What the load is called in reports"}));
    load.insert(
        "main".to_owned(),
        json!({"type": "boolean", "description": "Whether the report is of it first [default: of the first load]"}),
    );
    load.insert("phase".to_owned(), phases());
    let mut beside: Map<String, Value> =
        load.iter().filter(|(key, _)| canary::has(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    beside.insert(canary::EVERY.to_owned(), json!({"type": ["string", "number"], "description": canary::EVERY_ABOUT}));
    let mut run: Map<String, Value> = of(true).collect();
    let loads = json!({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/load"}});
    run.insert(
        "load".to_owned(),
        json!({"description": "What load is put on; several are put on at the same time", "anyOf": [{"$ref": "#/$defs/load"}, loads]}),
    );
    run.insert(
        "repeats".to_owned(),
        json!({"type": ["string", "integer"], "description": "How often all is run, with what the runs come to together [default: 1]"}),
    );
    run.insert(vary::VARY.to_owned(), vary::schema());
    let url = run.remove("canary").unwrap_or_default();
    let about = "A request once in a while beside the loads, reported apart: its URL, or a table";
    run.insert("canary".to_owned(), json!({"description": about, "anyOf": [url, {"$ref": "#/$defs/canary"}]}));
    let target: Map<String, Value> = target::KEYS
        .iter()
        .map(|(name, about)| ((*name).to_owned(), json!({"type": target::types(name), "description": about})))
        .collect();
    run.insert(
        "target".to_owned(),
        json!({"type": "object", "description": "A command that is started for the run", "properties": target, "required": ["command"], "additionalProperties": false}),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "plimsoll scenario file",
        "type": "object",
        "properties": run,
        "required": ["load"],
        "additionalProperties": false,
        "$defs": {
            "load": {"type": "object", "properties": load, "required": [URL], "additionalProperties": false},
            "canary": {"type": "object", "properties": beside, "required": [URL], "additionalProperties": false},
        },
    })
}

fn phases() -> Value {
    let of = |(name, about): &(&str, &str)| {
        let shape = match *name {
            "expect" => json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            "name" => json!({"type": "string"}),
            _ => json!({"type": ["string", "number"]}),
        };
        let mut shape = shape;
        shape["description"] = Value::from(*about);
        ((*name).to_owned(), shape)
    };
    let properties: Map<String, Value> = phase::KEYS.iter().map(of).collect();
    let one =
        json!({"type": "object", "properties": properties, "required": ["name", "for"], "additionalProperties": false});
    json!({"type": "array", "description": "Rates one after another, each with a name and figures of its own", "items": one})
}

fn property(key: &Key) -> (String, Value) {
    // What varies stands in a text, whatever else the key may be.
    let or_varied = |one: Value| json!({"anyOf": [one, {"type": "string", "pattern": "[{].+[}]"}]});
    let scalar = || match &key.values[..] {
        [] => json!({"type": ["string", "number"]}),
        values => or_varied(json!({"enum": values})),
    };
    let list_of = |one: Value| json!({"anyOf": [one, {"type": "array", "items": one}]});
    let mut schema = match key.shape {
        Shape::Switch => or_varied(json!({"type": "boolean"})),
        Shape::OnOff => or_varied(json!({"enum": ["on", "off", true, false]})),
        Shape::One => scalar(),
        Shape::Many if key.name == URL => {
            let weighted = json!({
                "type": "object",
                "properties": {"url": {"type": "string"}, "weight": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["url"],
                "additionalProperties": false,
            });
            list_of(json!({"anyOf": [{"type": "string"}, weighted]}))
        }
        Shape::Many if key.name == fault::FAULT => {
            let properties: Map<String, Value> = fault::KEYS
                .iter()
                .map(|(name, about)| ((*name).to_owned(), json!({"type": ["string", "number"], "description": about})))
                .collect();
            let table = json!({
                "type": "object",
                "properties": properties,
                "required": ["fault", "at"],
                "additionalProperties": false,
            });
            list_of(json!({"anyOf": [{"type": "string"}, table]}))
        }
        Shape::Many => list_of(scalar()),
    };
    schema["description"] = Value::from(key.about.clone());
    (key.name.clone(), schema)
}
