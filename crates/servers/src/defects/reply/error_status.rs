//! Replies that say failure.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{After, Hook, Manner};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::http::reason;

pub(super) const DEFECT: Defect = Defect {
    name: "error-status",
    servers: &[Server::Http],
    strength: Strength::Status { code: 503, of: 10 },
    parts: &[],
    ways: &[],
    needs: &[Able::Replies],
    about: "one of so many replies (503/10: of 10) has this status in place of 2xx; body and fields stay as they were",
    makes: "error-status: the share of failures, all of one status, latency as before",
    see: "curl -s -o /dev/null -w '%{http_code}\\n' 'http://127.0.0.1:PORT/?[1-100]' | sort | uniq -c",
    make: |setting| {
        let Strength::Status { code, .. } = setting.strength else { return Err(no_status(String::new())) };
        // 1xx is no reply yet; 204, 205 and 304 may not have the body that is there (RFC 9110 §15).
        if !(200..=599).contains(&code) || matches!(code, 204 | 205 | 304) {
            return Err(no_status(code.to_string()));
        }
        Ok(Box::new(ErrorStatus { line: format!("HTTP/1.1 {code} {}", reason(code)), every: EveryNth::of(&setting)? }))
    },
};

#[derive(Debug)]
struct ErrorStatus {
    line: String,
    every: EveryNth,
}

impl Hook for ErrorStatus {
    fn manner(&self, manner: &mut Manner) {
        manner.rewrites = true;
    }

    fn reply(&self, bytes: &mut Vec<u8>) -> After {
        let is_success = bytes.starts_with(b"HTTP/1.1 2") && !bytes.starts_with(b"HTTP/1.1 204");
        if is_success
            && self.every.is_due()
            && let Some(end) = memchr::memchr(b'\r', bytes)
        {
            bytes.splice(..end, self.line.bytes());
        }
        After::GoOn
    }
}

fn no_status(got: String) -> ServeError {
    ServeError::DefectStrength {
        defect: DEFECT.name,
        expected: "a status from 200 to 599 with a body, such as 503",
        got,
    }
}
