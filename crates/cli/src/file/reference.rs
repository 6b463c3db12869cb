//! `env:NAME` in a scenario file: a text that stands in the environment, so that no secret has to stand in the file.
//!
//! A whole text, or the value of a header field (`Authorization: env:TOKEN`). A text that only begins like one, such as
//! `env: x`, is itself. A variable that is not set is an error: an empty password would be sent in its place.

/// Where variables are looked up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a reference begins with.
const ENV: &str = "env:";

/// The variables of this process.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A reference to a variable.
pub fn to(name: &str) -> String {
    format!("{ENV}{name}")
}

/// The text, with the variable it refers to.
///
/// # Errors
/// It is not set: a sentence.
pub fn filled_in(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let (before, name) = match (name_of(text), text.split_once(": ")) {
        (Some(name), _) => ("", name),
        (None, Some((field, value))) if is_field(field) => match name_of(value) {
            Some(name) => (&text[..text.len() - value.len()], name),
            None => return Ok(text.to_owned()),
        },
        _ => return Ok(text.to_owned()),
    };
    match lookup(name) {
        Some(value) => Ok(format!("{before}{value}")),
        None => Err(format!("expected the variable {name} to be set, as '{text}' refers to it: set it")),
    }
}

/// The variable that a text refers to.
pub fn name_of(text: &str) -> Option<&str> {
    let name = text.strip_prefix(ENV)?;
    let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Whether it is the name of a header field (RFC 9110 §5.1).
fn is_field(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_stands_for_a_whole_text_or_a_fields_value() {
        let lookup = |name: &str| (name == "TOKEN").then(|| "s3 cret".to_owned());
        let filled = |text: &str| filled_in(text, &lookup);
        assert_eq!(filled("env:TOKEN"), Ok("s3 cret".to_owned()));
        assert_eq!(filled("Authorization: env:TOKEN"), Ok("Authorization: s3 cret".to_owned()));
        for itself in ["env:", "env: TOKEN", "env:TO KEN", "env:1", "xenv:TOKEN", "a b: env:TOKEN", "x: yenv:TOKEN", ""]
        {
            assert_eq!(filled(itself), Ok(itself.to_owned()));
        }
        let unset = filled("env:OTHER").unwrap_err();
        assert_eq!(unset, "expected the variable OTHER to be set, as 'env:OTHER' refers to it: set it");
    }
}
