//! One connection's TLS: the rustls connection, what of a record has come so far, what waits to be encrypted.

use rustls::HandshakeKind;
use rustls::ProtocolVersion;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use std::collections::VecDeque;
use wire::Payload;
use wire::tls::Fault;

/// Plain bytes of a record at the most (RFC 8446 §5.1).
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// What a record adds at the most: header, explicit nonce (TLS 1.2), content type (1.3), tag.
const RECORD_OVERHEAD_BYTES: usize = 5 + 8 + 1 + 16;
/// The content types of records (RFC 8446 §5.1, RFC 6520).
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=24;

/// One connection's TLS.
#[derive(Default)]
pub(super) struct Session {
    /// While TCP is connected.
    pub connection: Option<Box<UnbufferedClientConnection>>,
    /// Which origin it belongs to.
    pub origin: u16,
    /// Bytes of a record, or of a message in several records, that is not complete.
    pub rest: Vec<u8>,
    /// Requests not wholly encrypted, oldest first.
    pub unsent: VecDeque<Payload>,
    /// What was given to the driver below and is not known to have been taken whole by the kernel, oldest first: plain bytes,
    /// and those that they are as records.
    pub handed: VecDeque<(u64, u64)>,
    /// The handshake is done.
    pub secured: bool,
    /// A ticket is still to come, and to be told.
    pub ticket_due: bool,
    /// Whether any byte has come from the peer.
    has_heard: bool,
}

/// What came of letting TLS read.
#[derive(Debug)]
pub(super) struct Step {
    /// The peer has said close_notify.
    pub closed: bool,
    /// Bytes taken; what follows them is to be shown again, with what comes next.
    pub used: usize,
    /// It failed; an alert may be in what is to be sent.
    pub error: Option<rustls::Error>,
}

impl Session {
    /// Begins the TLS session of a new connection to this origin.
    pub fn begin(&mut self, origin: u16) {
        self.end();
        self.origin = origin;
    }

    /// Ends it; the memory stays for the slot's next connection.
    pub fn end(&mut self) {
        self.connection = None;
        self.rest.clear();
        self.unsent.clear();
        self.handed.clear();
        (self.secured, self.ticket_due, self.has_heard) = (false, false, false);
    }

    /// How many of what was handed down, the youngest, hold so many bytes that the kernel has not taken.
    pub fn not_taken(&self, mut unsent_bytes: u64) -> usize {
        let is_left = |(_, sealed): &&(u64, u64)| {
            let is_left = unsent_bytes > 0;
            unsent_bytes = unsent_bytes.saturating_sub(*sealed);
            is_left
        };
        self.handed.iter().rev().take_while(is_left).count()
    }

    /// Whether the handshake is done by both sides' word.
    pub fn is_ready(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_handshaking())
    }

    pub fn is_resumed(&self) -> bool {
        self.connection.as_ref().is_some_and(|c| c.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    pub fn is_v13(&self) -> bool {
        self.connection.as_ref().is_some_and(|c| c.protocol_version() == Some(ProtocolVersion::TLSv1_3))
    }

    pub fn tickets(&self) -> u32 {
        self.connection.as_ref().map_or(0, |c| c.tls13_tickets_received())
    }

    /// What the very first bytes say: whoever speaks no TLS is not asked to make sense of an alert.
    pub fn look_at_first(&mut self, bytes: &[u8]) -> Option<Fault> {
        let is_first = !std::mem::replace(&mut self.has_heard, true);
        let is_record = bytes.first().is_none_or(|first| CONTENT_TYPES.contains(first));
        (is_first && !is_record).then_some(Fault::NotTls)
    }

    /// Lets TLS read `incoming`; plain bytes and what is to be sent are appended.
    pub fn step(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Step {
        let mut step = Step { closed: false, used: 0, error: None };
        let Some(connection) = &mut self.connection else { return step };
        loop {
            let UnbufferedStatus { mut discard, state } = connection.process_tls_records(&mut incoming[step.used..]);
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(out, |room| data.encode(room).map_err(needed_to_encode));
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // The caller hands it over before anything else is sent.
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    step.closed = true;
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    // Once more, for the alert that tells the peer.
                    let is_first = step.error.is_none();
                    step.error.get_or_insert(error);
                    is_first
                }
            };
            step.used += discard;
            if !goes_on {
                break;
            }
        }
        step
    }

    /// Appends the records of some plain bytes.
    ///
    /// # Errors
    /// Where TLS cannot send (any more).
    pub fn encrypt(&mut self, bytes: &[u8], records: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let connection = self.connection.as_mut().ok_or(rustls::Error::HandshakeNotComplete)?;
        loop {
            // What has come of a message is shown again: TLS may have noted where it stands in it.
            let UnbufferedStatus { state, .. } = connection.process_tls_records(&mut self.rest);
            match state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let room = bytes.len() + bytes.len().div_ceil(RECORD_BYTES_MAX) * RECORD_OVERHEAD_BYTES;
                    return write(records, room, |room| traffic.encrypt(bytes, room));
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(records, |room| data.encode(room).map_err(needed_to_encode));
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                // Not while a reply is due; what has come is told when it is read.
                _ => return Err(rustls::Error::HandshakeNotComplete),
            }
        }
    }
}

/// Appends what `make` puts into the room it is given: first none, to learn how much it needs.
fn encode(out: &mut Vec<u8>, mut make: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = out.len();
    let needed = match make(&mut []) {
        Ok(_) => return,
        Err(needed) => needed,
    };
    out.resize(start + needed, 0);
    let made = make(&mut out[start..]).unwrap_or(0);
    out.truncate(start + made);
}

fn needed_to_encode(error: EncodeError) -> usize {
    match error {
        EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => required_size,
        EncodeError::AlreadyEncoded => 0,
    }
}

/// Appends records into room that is made for them; more is made where that was too little (a key update goes first).
fn write(
    records: &mut Vec<u8>,
    room: usize,
    mut encrypt: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), rustls::Error> {
    let start = records.len();
    let mut room = room;
    for _ in 0..2 {
        records.resize(start + room, 0);
        match encrypt(&mut records[start..]) {
            Ok(made) => {
                records.truncate(start + made);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => room = required_size,
            Err(EncryptError::EncryptExhausted) => break,
        }
    }
    Err(rustls::Error::EncryptError)
}
