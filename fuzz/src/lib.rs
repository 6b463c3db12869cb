//! What the targets share: an engine's loop without an engine, and cuts.
//!
//! Does not judge: a target compares the outcomes it gets.

use wire::{Failure, Progress, Protocol};

/// What became of a connection's requests, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A reply, or a failure of the protocol.
    Ended(Progress),
    /// Bytes came that nobody asked for.
    Unsolicited,
}

/// Feeds `pieces` to one connection that `requests` are outstanding on, then ends it, as the engine does.
///
/// # Panics
/// When the protocol breaks the promises of [`Protocol::feed`].
pub fn exchange<'a, P: Protocol>(
    protocol: &P,
    requests: &[P::Request],
    pieces: impl IntoIterator<Item = &'a [u8]>,
    then_closed: bool,
) -> Vec<Outcome> {
    let mut connection = protocol.connection();
    let mut outcomes = Vec::new();
    for mut bytes in pieces {
        while !bytes.is_empty() {
            let Some(request) = requests.get(outcomes.len()) else {
                outcomes.push(Outcome::Unsolicited);
                return outcomes;
            };
            let fed = protocol.feed(&mut connection, *request, bytes);
            assert!(fed.consumed <= bytes.len(), "took more than there was");
            bytes = &bytes[fed.consumed..];
            match fed.progress {
                Progress::More => assert!(bytes.is_empty(), "wants more, and has not taken all"),
                progress => {
                    check_words::<P>(progress);
                    outcomes.push(Outcome::Ended(progress));
                    if !matches!(progress, Progress::Reply(reply) if reply.keep) {
                        return outcomes;
                    }
                }
            }
        }
    }
    if let Some(request) = requests.get(outcomes.len()) {
        let end = match then_closed {
            true => protocol.closed(&mut connection, *request),
            false => Progress::Broken(protocol.timed_out(&mut connection, outcomes.len() as u32, *request)),
        };
        assert!(end != Progress::More, "wants more from a closed connection");
        check_words::<P>(end);
        outcomes.push(Outcome::Ended(end));
    }
    outcomes
}

/// Every detail that is given has words.
fn check_words<P: Protocol>(progress: Progress) {
    let failure = match progress {
        Progress::Reply(reply) | Progress::ReplyTo(_, reply) => reply.failure,
        Progress::Broken(failure) => Some(failure),
        Progress::More | Progress::Begun(_) | Progress::Say | Progress::Came(_) | Progress::Ending => None,
    };
    if let Some(Failure { detail, .. }) = failure {
        assert!(detail == 0 || P::describe(detail).is_some(), "detail {detail} has no words");
    }
}

/// Cuts bytes at places drawn from a seed; pieces are short or long on average, as the seed says.
pub fn cut(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut state = seed;
    let mut draw = || {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let longest = 1usize << (draw() % 10);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((draw() as usize % longest + 1).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Whether a text is in the bytes, in whatever case.
pub fn says(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text))
}
