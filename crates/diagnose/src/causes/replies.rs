//! Replies that are not what was due: `truncated-reply`, `padded-reply`, `corrupted-reply`, `missing-reply`.
//!
//! Evidence: (client) how many requests failed so; (replies) what came of those that were kept as examples: bytes where more
//! were due, or none. Refuted where none failed so. A target that died in the middle of a reply is `process-crash`. Whether a
//! reply of HTTP is whole is said by its own length; what comes behind it was asked for by nobody.

use super::deaths;
use crate::evidence::{Client, Process, Replies};
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict, past};
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::request::{Request, RequestEnd};
use model::units::show_grouped;

/// So many of the requests make it more than a single accident; of fewer, so many of all that failed: what explains most failures
/// is their cause, however many requests went well beside them.
const SHARE_MIN: f64 = 0.001;
const OF_FAILURES_MIN: f64 = 0.5;
const COUNT_MIN: u64 = 3;
/// So few of many are no accident either, from so many on.
const FEW_MIN: u64 = 10;

/// Replies that end before their length.
pub const TRUNCATED: CauseRule =
    CauseRule { id: "truncated-reply", needs: Needs::Connections, reads: &[], judge: truncated };
/// Replies that are longer than was due.
pub const PADDED: CauseRule = CauseRule { id: "padded-reply", needs: Needs::Connections, reads: &[], judge: padded };
/// Replies whose bytes are not those that were due.
pub const CORRUPTED: CauseRule =
    CauseRule { id: "corrupted-reply", needs: Needs::Connections, reads: &[], judge: corrupted };
/// Requests that were taken and never answered.
pub const MISSING: CauseRule =
    CauseRule { id: "missing-reply", needs: Needs::Connections, reads: &[&["process/threads"]], judge: missing };

fn truncated(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let is_cut = |r: &Request| r.end == RequestEnd::Failed(ErrorKind::ClosedEarly) && r.received_bytes > 0;
    let early = facts.recording.requests.failed().filter(|r| is_cut(r)).count();
    let sampled =
        facts.recording.requests.failed().filter(|r| r.end == RequestEnd::Failed(ErrorKind::ClosedEarly)).count();
    // Those that were closed early are cut replies as far as the sample has bytes of them.
    let of_early = if sampled == 0 { 0.0 } else { early as f64 / sampled as f64 };
    let early = (facts.errors(ErrorKind::ClosedEarly) as f64 * of_early) as u64;
    let count = facts
        .errors(ErrorKind::TruncatedReply)
        .saturating_add(facts.errors(ErrorKind::ShortReply))
        .saturating_add(early);
    let kinds = [ErrorKind::TruncatedReply, ErrorKind::ShortReply, ErrorKind::ClosedEarly];
    let words = Words {
        none: "every reply came to its end",
        title: "replies end before they are whole",
        what: "ended before their length",
        remedy: "Look at how the target sends: a call that took only a part (short write), a buffer of a fixed size, a length counted by strlen",
        check: "curl -s -o /dev/null -w '%{exitcode} %{size_download}\\n' 'URL?[1-20]': 18 for each that is cut",
    };
    judge(facts, count, &kinds, &words)
}

fn padded(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let unasked = facts.recording.totals.sum.connection_errors.of(ErrorKind::UnsolicitedReply);
    let count = facts.errors(ErrorKind::PaddedReply).saturating_add(unasked);
    let words = Words {
        none: "no reply was longer than was due",
        title: "more comes than was due: replies are longer than they say",
        what: "had bytes behind them that nobody had asked for",
        remedy: "Look at the length the target sends: the size of a buffer in place of what is in it, or bytes behind a body",
        check: "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc HOST PORT | tail -c 32 | od -An -tx1",
    };
    judge(facts, count, &[ErrorKind::PaddedReply, ErrorKind::UnsolicitedReply], &words)
}

fn corrupted(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let count = facts.errors(ErrorKind::CorruptedReply).saturating_add(facts.errors(ErrorKind::WrongContent));
    let words = Words {
        none: "no reply had other bytes than were due",
        title: "replies have other bytes than were due",
        what: "had other bytes than were due",
        remedy: "Look for a buffer that two requests share, or one that is used again before it was sent",
        check: "for i in 1 2 3 4 5 6 7 8 9 10; do curl -s URL | sha256sum; done | sort | uniq -c",
    };
    judge(facts, count, &[ErrorKind::CorruptedReply, ErrorKind::WrongContent], &words)
}

/// Whether so many failures of one kind are hardly any, beside all requests and all failures.
fn is_accident(facts: &Facts<'_>, count: u64) -> bool {
    let share = count as f64 / facts.ended.max(1.0);
    let of_failures = count as f64 / crate::ledger::failures(facts).max(1.0);
    count < COUNT_MIN || (share < SHARE_MIN && (count < FEW_MIN || of_failures < OF_FAILURES_MIN))
}

struct Words {
    none: &'static str,
    title: &'static str,
    what: &'static str,
    remedy: &'static str,
    check: &'static str,
}

fn judge(facts: &Facts<'_>, count: u64, kinds: &[ErrorKind], words: &Words) -> Verdict<OfTarget> {
    let share = count as f64 / facts.ended.max(1.0);
    if is_accident(facts, count) {
        return Verdict::refuted(words.none);
    }
    if deaths::told(facts).is_some() || deaths::gone(facts).is_some() {
        return Verdict::refuted("a process of the target ended: that cut its replies");
    }
    let count_shown = show_grouped(count);
    // What nobody had asked for is no part of the replies, and may be more than there are.
    let (text, of_them) = if share > 1.0 {
        let whole = show_grouped(facts.ended as u64);
        let text = format!("bytes that nobody had asked for came {count_shown} times, beside {whole} replies");
        (text, format!("{count_shown} times"))
    } else {
        let whole = show_grouped(facts.ended as u64);
        let share = percent(share);
        (format!("{count_shown} of {whole} replies {} ({share})", words.what), format!("{share} of them"))
    };
    let client = facts.piece::<Client>(text, "errors.replies", count as f64, "replies").from(COUNT_MIN as f64);
    let is_one = |r: &&Request| matches!(r.end, RequestEnd::Failed(kind) if kinds.contains(&kind));
    let mut sizes: Vec<u32> = facts.recording.requests.failed().filter(is_one).map(|r| r.received_bytes).collect();
    sizes.sort_unstable();
    let text = match (sizes.first(), sizes.last()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most} bytes of them came"),
        (Some(bytes), _) => format!("{bytes} bytes of each came"),
        _ => "they came between replies, or behind the last of a connection".to_owned(),
    };
    let replies = facts.piece::<Replies>(text, "replies.bytes", sizes.last().map(|bytes| f64::from(*bytes)), "bytes");
    let of_failures = (count as f64 / crate::ledger::failures(facts).max(1.0)).min(1.0);
    Verdict::proved(Severity::Error, format!("{}: {of_them}", words.title), client, replies)
        .explains(LossKind::Failed, of_failures, of_failures * 0.9, 1.0)
        .remedy(words.remedy)
        .check(words.check)
        .confidence(past(share, SHARE_MIN).max(0.8))
}

/// Whether most of those that were never answered had seen replies on the same connection before: it was served.
fn was_served_before(facts: &Facts<'_>) -> bool {
    let is_never = |request: &&Request| {
        matches!(request.end, RequestEnd::Failed(ErrorKind::ReplyTimeout | ErrorKind::MissingReply))
    };
    let never: Vec<&Request> = facts.recording.requests.failed().filter(is_never).collect();
    2 * never.iter().filter(|request| request.ordinal > 1).count() > never.len()
}

fn missing(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let count = facts.errors(ErrorKind::ReplyTimeout).saturating_add(facts.errors(ErrorKind::MissingReply));
    let share = count as f64 / facts.ended.max(1.0);
    let ok = facts.recording.totals.sum.counts.ok;
    if is_accident(facts, count) {
        return Verdict::refuted("every request was answered, or hardly one was not");
    }
    if deaths::told(facts).is_some() || deaths::gone(facts).is_some() {
        return Verdict::refuted("a process of the target ended");
    }
    if facts.recording.totals.users.is_some_and(|users| users.starved > 0) && !was_served_before(facts) {
        return Verdict::refuted("those were connections that were not served at all, while others were");
    }
    let text = format!(
        "{} of {} requests were never answered, while {} were",
        show_grouped(count),
        show_grouped(facts.ended as u64),
        show_grouped(ok)
    );
    let client = facts.piece::<Client>(text, "errors.reply_timeout", count as f64, "requests").from(COUNT_MIN as f64);
    let demand = facts.busiest_demand().unwrap_or(1.0);
    let text = format!("its busiest thread wanted {} of a core: it had time to answer", percent(demand));
    let process = facts.piece::<Process>(text, "target.thread_demand", demand, "ratio");
    if demand >= 0.5 || ok == 0 {
        return Verdict::refuted("the target was busy, or answered nothing at all")
            .because(client.into())
            .because(process.into());
    }
    let of_failures = (count as f64 / crate::ledger::failures(facts).max(1.0)).min(1.0);
    Verdict::proved(
        Severity::Error,
        format!("{} of the requests are taken and never answered", percent(share)),
        client,
        process,
    )
    .explains(LossKind::Failed, of_failures, of_failures * 0.8, 1.0)
    .remedy("Look for a branch of the target that returns without a reply, or an error that nobody handles")
    .check("ss -tn 'sport = :PORT' # Recv-Q 0: it was read; and the target's log at that moment")
    .confidence(0.8)
}
