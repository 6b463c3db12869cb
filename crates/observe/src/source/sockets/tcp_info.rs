//! `struct tcp_info` of linux/tcp.h, as the kernel hands it out: only its fields that are used, by their offsets.
//!
//! The struct has grown at its end from kernel to kernel and never changed before it: a field beyond the end of what
//! came is `None`.

/// What is used of one connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TcpInfo {
    /// Whether the last delivery rate was bound by the application.
    pub(crate) is_app_limited: bool,
    /// Segments sent and not acknowledged.
    pub(crate) unacked: u32,
    /// Milliseconds since data was last sent.
    pub(crate) last_sent_ms: u32,
    /// Milliseconds since data last came.
    pub(crate) last_received_ms: u32,
    /// Milliseconds since an acknowledgement last came.
    pub(crate) last_acknowledged_ms: u32,
    /// Smoothed round-trip time, microseconds; 0: not measured yet.
    pub(crate) rtt_us: u32,
    /// Segments sent again, of its whole life.
    pub(crate) retransmits: u32,
    /// Bytes that have come.
    pub(crate) received_bytes: Option<u64>,
    /// Segments that came and had data in them.
    pub(crate) data_segments_received: Option<u32>,
    /// Segments sent that had data in them.
    pub(crate) data_segments_sent: Option<u32>,
    /// Bytes in the send buffer that were not sent yet.
    pub(crate) not_sent_bytes: Option<u32>,
    /// Least round-trip time, microseconds; `u32::MAX`: not measured yet.
    pub(crate) rtt_min_us: Option<u32>,
    /// Bytes a second, of its last deliveries; 0: not measured yet.
    pub(crate) delivery_rate: Option<u64>,
    /// Time with data to send, microseconds.
    pub(crate) busy_us: Option<u64>,
    /// Of that, bound by the peer's window.
    pub(crate) window_limited_us: Option<u64>,
    /// Of that, bound by the own send buffer.
    pub(crate) buffer_limited_us: Option<u64>,
}

impl TcpInfo {
    /// Reads it; `None` where even what Linux 2.6 had is not whole.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        // Bit-fields are laid out from the least significant bit on little-endian machines, from the most on others.
        let limited = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
        Some(TcpInfo {
            is_app_limited: bytes.get(7)? & limited != 0,
            unacked: u32_at(24)?,
            last_sent_ms: u32_at(44)?,
            last_received_ms: u32_at(52)?,
            last_acknowledged_ms: u32_at(56)?,
            rtt_us: u32_at(68)?,
            retransmits: u32_at(100)?,
            received_bytes: u64_at(128),
            data_segments_received: u32_at(152),
            data_segments_sent: u32_at(156),
            not_sent_bytes: u32_at(144),
            rtt_min_us: u32_at(148),
            delivery_rate: u64_at(160),
            busy_us: u64_at(168),
            window_limited_us: u64_at(176),
            buffer_limited_us: u64_at(184),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_short_one_has_what_it_has() {
        assert_eq!(TcpInfo::parse(&[0; 103]), None);
        let info = TcpInfo::parse(&[1; 104]).unwrap();
        assert_eq!((info.rtt_us, info.retransmits), (0x0101_0101, 0x0101_0101));
        assert_eq!((info.not_sent_bytes, info.busy_us), (None, None));
        for length in 0..400 {
            let _ = TcpInfo::parse(&vec![0xff; length]);
        }
    }

    #[test]
    fn the_offsets_are_those_of_libc() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        let mut info = [0u8; 256];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the buffer, which is that long.
        let done = unsafe {
            libc::getsockopt(
                client.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(done, 0);
        let parsed = TcpInfo::parse(&info[..length as usize]).unwrap();
        // SAFETY: the kernel filled in a `tcp_info`, of which libc's is the beginning; the buffer is larger than it.
        let libcs = unsafe { info.as_ptr().cast::<libc::tcp_info>().read_unaligned() };
        assert_eq!((parsed.rtt_us, parsed.unacked), (libcs.tcpi_rtt, libcs.tcpi_unacked));
        assert_eq!(
            (parsed.retransmits, parsed.last_received_ms),
            (libcs.tcpi_total_retrans, libcs.tcpi_last_data_recv)
        );
        assert_eq!(
            (parsed.last_sent_ms, parsed.last_acknowledged_ms),
            (libcs.tcpi_last_data_sent, libcs.tcpi_last_ack_recv)
        );
        assert!(parsed.rtt_us > 0 && parsed.rtt_us < 10_000_000, "{parsed:?}");
        assert!(parsed.rtt_min_us.unwrap() <= parsed.rtt_us.max(1) * 2, "{parsed:?}");
        assert_eq!(parsed.not_sent_bytes, Some(0), "{parsed:?}");
        assert_eq!((parsed.received_bytes, parsed.data_segments_sent), (Some(0), Some(1)), "{parsed:?}");
        assert!(parsed.busy_us.unwrap() < 60_000_000, "{parsed:?}");
    }
}
