//! From a request's path to a name below the root: decoded once, then made plain.
//!
//! This is the first of two walls. It resolves `.` and `..` by text and refuses what climbs above the
//! root; the second is `openat2`, which holds against symbolic links and everything missed here.

/// Why a path names nothing that could be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathError {
    /// Broken percent-encoding, or an encoded NUL.
    Malformed,
    /// It climbs above the root.
    Escapes,
}

/// The name below the root, without leading slash; empty for the root itself. A trailing slash is kept.
/// Percent-encoded slashes and dots are decoded first, so they count as slashes and dots.
pub(crate) fn below_root(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let decoded = percent_decode(path)?;
    let mut name = Vec::with_capacity(decoded.len());
    let mut is_folder = true;
    for part in decoded.split(|&byte| byte == b'/') {
        is_folder = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => {
                if name.is_empty() {
                    return Err(PathError::Escapes);
                }
                let parent = name.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                name.truncate(parent);
            }
            part => {
                if !name.is_empty() {
                    name.push(b'/');
                }
                name.extend_from_slice(part);
            }
        }
    }
    if is_folder && !name.is_empty() {
        name.push(b'/');
    }
    Ok(name)
}

fn percent_decode(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        if *byte != b'%' {
            decoded.push(*byte);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return Err(PathError::Malformed) };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(PathError::Malformed) };
        match (high * 16 + low) as u8 {
            0 => return Err(PathError::Malformed),
            byte => decoded.push(byte),
        }
        rest = after;
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_names_below_the_root_or_nothing() {
        let check = |path: &str, expected: Result<&str, PathError>| {
            assert_eq!(below_root(path.as_bytes()), expected.map(|name| name.as_bytes().to_vec()), "{path}");
        };
        check("/", Ok(""));
        check("/a/b", Ok("a/b"));
        check("//a///b/", Ok("a/b/"));
        check("/a/./b/.", Ok("a/b/"));
        check("/a/../b", Ok("b"));
        check("/a/b/..", Ok("a/"));
        check("/a/..", Ok(""));
        check("/%41%2fb", Ok("A/b"));
        check("/...", Ok("..."));
        check("/a%20b", Ok("a b"));
        check("/%252e%252e/x", Ok("%2e%2e/x"));
        check("/..", Err(PathError::Escapes));
        check("/../etc/passwd", Err(PathError::Escapes));
        check("/a/../../b", Err(PathError::Escapes));
        check("/%2e%2e/x", Err(PathError::Escapes));
        check("/%2E./x", Err(PathError::Escapes));
        check("/a%2f..%2f..%2fx", Err(PathError::Escapes));
        check("/a%00b", Err(PathError::Malformed));
        check("/%", Err(PathError::Malformed));
        check("/%4", Err(PathError::Malformed));
        check("/%zz", Err(PathError::Malformed));
        check("/%+1", Err(PathError::Malformed));
    }
}
