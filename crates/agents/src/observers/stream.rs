//! A TCP connection carried over two subjects, one each way.
//!
//! A message is its number (8 bytes, big-endian) and bytes; one without bytes is the end. NATS gives what one side says in its order, or
//! leaves some of it out where the other end is too slow; then a number is missing, and the connection ends as a cut one does.

use crate::limits::RELAY_CHUNK_BYTES;
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of a message's number.
const NUMBER_BYTES: usize = 8;

/// A message of a stream.
fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(NUMBER_BYTES + bytes.len());
    message.extend_from_slice(&number.to_be_bytes());
    message.extend_from_slice(bytes);
    message
}

/// The bytes of a message that is the next; `None`: the stream has ended, or something is missing.
fn bytes_of(message: &[u8], expected: u64) -> Option<&[u8]> {
    let (number, bytes) = message.split_first_chunk::<NUMBER_BYTES>()?;
    (u64::from_be_bytes(*number) == expected && !bytes.is_empty()).then_some(bytes)
}

/// Carries a connection until one of its ends closes, or the way between breaks.
pub(super) async fn carry(client: Client, tcp: TcpStream, mut from: Subscriber, to: String) {
    // Small messages are questions and answers, and stamps lie in them.
    let _ = tcp.set_nodelay(true);
    let (mut reading, mut writing) = tcp.into_split();
    let there = async {
        let (mut number, mut bytes) = (0, vec![0; RELAY_CHUNK_BYTES]);
        loop {
            // A connection that fails has ended.
            let n = reading.read(&mut bytes).await.unwrap_or(0);
            if client.publish(to.clone(), message(number, &bytes[..n]).into()).await.is_err() || n == 0 {
                return;
            }
            number += 1;
        }
    };
    let here = async {
        let mut expected = 0;
        while let Some(message) = from.next().await {
            let Some(bytes) = bytes_of(&message.payload, expected) else { break };
            if writing.write_all(bytes).await.is_err() {
                break;
            }
            expected += 1;
        }
        let _ = writing.shutdown().await;
    };
    tokio::select! {
        () = there => {}
        // The other side learns of it too: nothing more comes of this one.
        () = here => drop(client.publish(to.clone(), message(u64::MAX, &[]).into()).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_empty_ends_a_stream() {
        assert_eq!(bytes_of(&message(3, b"abc"), 3), Some(&b"abc"[..]));
        assert_eq!(bytes_of(&message(4, b"abc"), 3), None, "one is missing");
        assert_eq!(bytes_of(&message(3, b""), 3), None, "the end");
        assert_eq!(bytes_of(b"", 0), None);
        assert_eq!(bytes_of(b"short", 0), None);
    }
}
