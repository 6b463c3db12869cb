//! The numbers that say more about a RESP failure than its kind, and their words.
//!
//! Numbers are stored in recordings: never change one, add new ones. Named details are below 100; [`ERROR`] + the place
//! in [`model::resp::ERROR_WORDS`] is the first word of an error reply.

use crate::detail::details;
use model::resp::ERROR_WORDS;
use std::borrow::Cow;

/// Where the numbers of error replies begin.
const ERROR: u32 = 100;

details! {
    /// Not one of `+-:$*`.
    UnknownType = 1, "the reply begins with a byte that is none of RESP2's types (+ - : $ *)";
    /// CR without LF, or the other way round.
    LineEnding = 2, "a line of the reply does not end in CR LF";
    /// A simple string or an error without end.
    LineTooLong = 3, "a line of the reply is longer than 64 KiB";
    /// No digits, something else among them, or too large.
    Number = 4, "a number in the reply is malformed";
    /// Beyond what redis allows itself.
    BulkTooLong = 5, "the reply announces a string of more than 512 MiB";
    /// No CR LF where the announced length ends.
    BulkEnding = 6, "a string of the reply does not end where its length says";
    /// Too many elements.
    TooManyElements = 7, "the reply announces more than 16,777,216 elements";
    /// Arrays in arrays.
    TooDeep = 8, "the reply nests arrays more than 8 deep";
    /// Nothing came.
    BeforeFirstByte = 20, "before the reply's first byte";
    /// In a line.
    InLine = 21, "inside a line of the reply";
    /// In a bulk string.
    InBulk = 22, "inside a string of the reply";
    /// Between elements.
    InArray = 23, "inside an array of the reply";
    /// A simple string that was not due.
    SimpleInstead = 30, "a simple string came that was not the reply due";
    /// An integer that was not due.
    IntegerInstead = 31, "an integer came where another reply was due";
    /// A bulk string that was not due.
    BulkInstead = 32, "a string came where another reply was due";
    /// Nil that was not due.
    NilInstead = 33, "nil came where another reply was due";
    /// An array that was not due.
    ArrayInstead = 34, "an array came where another reply was due";
    /// A value that was acknowledged is gone.
    LostWrite = 35, "nil came for a key whose SET had been acknowledged before this GET left: the write is lost";
    /// The value's length is not the key's.
    ValueLength = 40, "the value is not as long as the one its key has: another client's, or of a run with other --value-size, --seed or --content (--key-prefix keeps apart, --no-validate accepts any)";
    /// The value's bytes are not the key's.
    ValueBytes = 41, "the value's bytes are not the ones its key has: another client's, or of a run with other --value-size, --seed or --content (--key-prefix keeps apart, --no-validate accepts any)";
}

/// The number of an error reply.
pub(super) fn of_error(word: u8) -> u32 {
    ERROR + u32::from(word)
}

/// A detail in words.
pub fn describe(detail: u32) -> Option<&'static str> {
    if let Some(word) = detail.checked_sub(ERROR) {
        return ERROR_WORDS.get(word as usize).map(|(_, words)| *words);
    }
    named(detail)
}

/// A detail in words, as [`describe`]: no number of this protocol holds more.
pub fn words(detail: u32) -> Option<Cow<'static, str>> {
    describe(detail).map(Cow::Borrowed)
}
