//! Whether a well-framed reply is the one that was due: its status, its body's SHA-256, a regular expression.
//!
//! The body is looked at as it came, any content coding still on it. A body that came in one slice is checked there;
//! otherwise the digest is streamed and the first MiB is kept for the expression. Without a body check nothing is
//! kept and this costs a comparison of the status.

use super::detail::{self, Detail};
use crate::{Failure, WireError};
use model::ErrorKind;
use model::limits::BODY_CHECK_BYTES_MAX;
use model::plan::Expect;
use regex::bytes::Regex;
use sha2::{Digest, Sha256};

/// Memory of a kept body that is kept for the next one, bytes.
const KEPT_CAPACITY_MAX: usize = 64 * 1024;

/// What a good reply looks like, made ready.
#[derive(Debug)]
pub struct Check {
    /// Accepted statuses, inclusive; empty: any below 400.
    expect: Expect,
    body: Option<BodyCheck>,
}

#[derive(Debug)]
struct BodyCheck {
    /// Whether the body is kept for others to look at.
    keeps: bool,
    digest: Option<[u8; 32]>,
    regex: Option<Regex>,
}

/// What is kept of a body that comes in pieces.
#[derive(Debug, Default)]
pub struct Seen {
    digest: Sha256,
    kept: Vec<u8>,
    is_cut: bool,
}

impl Check {
    /// Makes an expectation ready. `index` is the request's place in the plan, for errors; `keeps`: the first MiB of bodies
    /// is kept for others to look at.
    ///
    /// # Errors
    /// A digest that is not 64 hexadecimal digits; an expression that `regex` refuses.
    pub fn new(index: usize, expect: &Expect, keeps: bool) -> Result<Check, WireError> {
        let digest = match &expect.body_sha256 {
            None => None,
            Some(hex) => {
                Some(parse_digest(hex).ok_or_else(|| WireError::Digest { request: index, given: hex.clone() })?)
            }
        };
        let regex = expect.body_regex.as_deref().map(Regex::new).transpose();
        let regex = regex.map_err(|source| WireError::Regex { request: index, source: Box::new(source) })?;
        let body = (keeps || digest.is_some() || regex.is_some()).then_some(BodyCheck { keeps, digest, regex });
        Ok(Check { expect: expect.clone(), body })
    }

    /// Whether bodies are looked at.
    #[inline]
    pub fn wants_body(&self) -> bool {
        self.body.is_some()
    }

    /// Takes a piece of the body.
    pub fn see(&self, seen: &mut Seen, piece: &[u8]) {
        let Some(body) = &self.body else { return };
        if body.digest.is_some() {
            seen.digest.update(piece);
        }
        if body.keeps || body.regex.is_some() {
            let room = (BODY_CHECK_BYTES_MAX as usize).saturating_sub(seen.kept.len());
            seen.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            seen.is_cut |= piece.len() > room;
        }
    }

    /// The verdict on a reply whose body came in one slice (or was not looked at).
    #[inline]
    pub fn whole(&self, status: u16, body: &[u8]) -> Option<Failure> {
        if !self.expect.accepts(status) {
            return Some(Failure { kind: ErrorKind::UnexpectedStatus, detail: detail::status(status) });
        }
        let check = self.body.as_ref()?;
        let kept = &body[..body.len().min(BODY_CHECK_BYTES_MAX as usize)];
        check.verdict(|| Sha256::digest(body).into(), kept, kept.len() < body.len())
    }

    /// The verdict on a reply whose body came in pieces.
    pub fn pieces(&self, status: u16, seen: &mut Seen) -> Option<Failure> {
        if !self.expect.accepts(status) {
            return Some(Failure { kind: ErrorKind::UnexpectedStatus, detail: detail::status(status) });
        }
        let check = self.body.as_ref()?;
        let digest = &mut seen.digest;
        check.verdict(|| digest.finalize_reset().into(), &seen.kept, seen.is_cut)
    }
}

impl BodyCheck {
    fn verdict(&self, digest: impl FnOnce() -> [u8; 32], kept: &[u8], is_cut: bool) -> Option<Failure> {
        let wrong = |detail: Detail| Some(Failure { kind: ErrorKind::WrongContent, detail: detail as u32 });
        if self.digest.is_some_and(|expected| expected != digest()) {
            return wrong(Detail::WrongDigest);
        }
        match &self.regex {
            Some(regex) if !regex.is_match(kept) => wrong(if is_cut { Detail::NoMatchInPart } else { Detail::NoMatch }),
            _ => None,
        }
    }
}

impl Seen {
    /// What is kept of the body.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Ready for the next body.
    pub fn clear(&mut self) {
        self.digest.reset();
        self.kept.clear();
        self.kept.shrink_to(KEPT_CAPACITY_MAX);
        self.is_cut = false;
    }
}

fn parse_digest(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.trim().as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc` (FIPS 180-2, appendix B.1).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// SHA-256 of nothing.
    const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn expect(status: &[(u16, u16)], sha256: Option<&str>, regex: Option<&str>) -> Expect {
        let (body_sha256, body_regex) = (sha256.map(str::to_owned), regex.map(str::to_owned));
        Expect { status: status.to_vec(), body_sha256, body_regex }
    }

    fn check(expect: &Expect, status: u16, body: &[u8], expected: Option<(ErrorKind, u32)>) {
        let check = Check::new(0, expect, false).unwrap();
        let expected = expected.map(|(kind, detail)| Failure { kind, detail });
        assert_eq!(check.whole(status, body), expected, "{expect:?} {status}");
        // The second time shows that nothing of the first is left.
        let mut seen = Seen::default();
        for pieces in [1, 7] {
            for piece in body.chunks(body.len().div_ceil(pieces).max(1)) {
                check.see(&mut seen, piece);
            }
            assert_eq!(check.pieces(status, &mut seen), expected, "{expect:?} {status} in {pieces} pieces");
            seen.clear();
        }
    }

    #[test]
    fn replies_are_judged_by_what_was_asked_for() {
        let any = expect(&[], None, None);
        let status = |code: u32| Some((ErrorKind::UnexpectedStatus, 1000 + code));
        let wrong = |detail: Detail| Some((ErrorKind::WrongContent, detail as u32));
        for (code, expected) in [(200, None), (304, None), (399, None), (400, status(400)), (999, status(999))] {
            check(&any, code, b"abc", expected);
        }
        let some = expect(&[(200, 200), (400, 404)], None, None);
        for (code, expected) in [(200, None), (201, status(201)), (400, None), (404, None), (405, status(405))] {
            check(&some, code, b"", expected);
        }
        check(&expect(&[], Some(ABC), None), 200, b"abc", None);
        check(&expect(&[], Some(&ABC.to_uppercase()), None), 200, b"abc", None);
        check(&expect(&[], Some(ABC), None), 200, b"abd", wrong(Detail::WrongDigest));
        check(&expect(&[], Some(ABC), None), 200, b"", wrong(Detail::WrongDigest));
        check(&expect(&[], Some(NOTHING), None), 200, b"", None);
        check(&expect(&[], Some(ABC), None), 500, b"abd", status(500));
        check(&expect(&[], None, Some("^a.c$")), 200, b"abc", None);
        check(&expect(&[], None, Some("x")), 200, b"abc", wrong(Detail::NoMatch));
        check(&expect(&[], None, Some("(?-u)\\xff")), 200, b"ab\xff", None);
        check(&expect(&[], Some(ABC), Some("x")), 200, b"abc", wrong(Detail::NoMatch));
        check(&expect(&[], None, Some("^$")), 200, b"", None);
    }

    #[test]
    fn an_expression_sees_the_first_mib_and_no_more() {
        let limit = BODY_CHECK_BYTES_MAX as usize;
        let needle = expect(&[], None, Some("needle"));
        let mut body = vec![b'.'; limit];
        check(&needle, 200, &body, Some((ErrorKind::WrongContent, Detail::NoMatch as u32)));
        body.extend_from_slice(b"needle");
        check(&needle, 200, &body, Some((ErrorKind::WrongContent, Detail::NoMatchInPart as u32)));
        body[limit - 6..limit].copy_from_slice(b"needle");
        check(&needle, 200, &body, None);

        let (check, mut seen) = (Check::new(0, &needle, false).unwrap(), Seen::default());
        for _ in 0..300 {
            check.see(&mut seen, &body[..16 * 1024]);
        }
        assert!(seen.kept.capacity() <= 2 * limit, "{}", seen.kept.capacity());
        seen.clear();
        assert!(seen.kept.capacity() <= KEPT_CAPACITY_MAX, "{}", seen.kept.capacity());
    }

    #[test]
    fn checks_that_cannot_be_made_are_refused() {
        for bad in ["", "abc", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g"), &"\u{e9}".repeat(32)] {
            let error = Check::new(3, &expect(&[], Some(bad), None), false).unwrap_err();
            assert!(matches!(error, WireError::Digest { request: 3, .. }), "{error}");
        }
        let error = Check::new(3, &expect(&[], None, Some("(")), false).unwrap_err();
        assert!(matches!(error, WireError::Regex { request: 3, .. }), "{error}");
    }
}
