//! The fields of a head, read as they stand (RFC 9110 §5): by name, as lists, and those of one connection only.

use crate::limits;

/// The fields of a complete head, in order, without its first line.
pub(super) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|&byte| byte == b'\n').skip(1).filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// The first value of a field, by its name in lower case.
pub(super) fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    fields(head).find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The list that a field is, over all its lines (RFC 9110 §5.3).
pub(super) fn list<'a>(head: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = fields(head).filter(move |(field, _)| field.eq_ignore_ascii_case(name));
    lines
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

/// The options of `Connection`; none if there are too many to be meant.
pub(super) fn nominated(head: &[u8]) -> Option<Vec<&[u8]>> {
    let mut options = list(head, b"connection");
    let nominated: Vec<_> = options.by_ref().take(limits::CONNECTION_OPTIONS_MAX).collect();
    if options.next().is_some() { None } else { Some(nominated) }
}

/// Whether a field speaks of one connection only, by its nature or because `Connection` names it.
pub(super) fn is_of_connection(name: &[u8], nominated: &[&[u8]]) -> bool {
    const ALWAYS: [&[u8]; 9] = [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"http2-settings",
    ];
    ALWAYS.iter().chain(nominated).any(|other| name.eq_ignore_ascii_case(other))
}
