//! The bare loops of `bench/floor`: one line of JSON.

use anyhow::Result;

use super::{Captured, Reported, count, json, number};

/// Reads the line of a loop.
pub fn parse(captured: Captured<'_>) -> Result<Reported> {
    let document = json(captured.stdout)?;
    Ok(Reported {
        ok: count(&document, "/requests")?,
        failed: count(&document, "/errors")?,
        lag_p99_us: number(&document, "/release_error_p99_us", 1.0),
        peak_rss_bytes: count(&document, "/peak_rss_bytes").ok(),
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse as parse_text;
    use super::*;

    #[test]
    fn lines_as_captured() {
        let closed = parse_text(parse, include_str!("../../fixtures/floor-epoll.json")).unwrap();
        assert_eq!((closed.ok, closed.failed), (163_747, 0));
        assert_eq!(closed.lag_p99_us, None);
        let open = parse_text(parse, include_str!("../../fixtures/floor-due.json")).unwrap();
        assert_eq!(open.ok, 5000);
        assert_eq!(open.lag_p99_us, Some(44.208));
        assert_eq!(open.peak_rss_bytes, Some(2_322_432));
    }
}
