//! Listening sockets by the kernel's tables: `/proc/net/tcp`, `tcp6` and `unix`, where netlink does not say.
//!
//! Listeners come before all others in them (Documentation/networking/proc_net_tcp.rst), so a million connections are not read through.

use super::NotFound;
use crate::source::proc::{number, words};
use crate::source::sockets::sock_diag::Listener;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The listening TCP sockets by the tables in a folder such as `/proc/net`.
pub(crate) fn listeners_of_tables(folder: &str) -> Result<Vec<Listener>, NotFound> {
    let mut listeners = Vec::new();
    each_listener(&format!("{folder}/tcp"), |listener| listeners.push(listener))?;
    // Without IPv6 in the kernel its table is missing, and so are its sockets.
    let of_ipv6 = format!("{folder}/tcp6");
    if Path::new(&of_ipv6).exists() {
        each_listener(&of_ipv6, |listener| listeners.push(listener))?;
    }
    Ok(listeners)
}

/// Calls for each listening socket of a table.
fn each_listener(path: &str, mut found: impl FnMut(Listener)) -> Result<(), NotFound> {
    let unreadable = |source| NotFound::Unreadable { path: PathBuf::from(path), source };
    let table = BufReader::new(File::open(path).map_err(unreadable)?);
    for line in table.split(b'\n').skip(1) {
        match listener(&line.map_err(unreadable)?) {
            Some(listener) => found(listener),
            None => break,
        }
    }
    Ok(())
}

/// One row; `None` when its socket does not listen (state 0A).
fn listener(row: &[u8]) -> Option<Listener> {
    let mut columns = words(row).skip(1);
    let local = columns.next()?;
    if columns.nth(1)? != b"0A" {
        return None;
    }
    // After the state: queues, timer, retransmits, uid, timeout, inode.
    let inode = number(columns.nth(5)?)?;
    Some(Listener {
        address: socket_address(std::str::from_utf8(local).ok()?)?,
        inode,
        waiting: None,
        backlog: None,
        drops: None,
    })
}

/// `0100007F:1FA2`: the address as 32-bit words in the machine's byte order, the port as a number, both in hex.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |i: usize| {
        let word = u32::from_str_radix(address.get(8 * i..8 * i + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(i)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Path and inode of the sockets of a table such as `/proc/net/unix` that accept connections.
pub(crate) fn unix_rows(table: &Path) -> Result<Vec<(PathBuf, u64)>, NotFound> {
    let unreadable = |source| NotFound::Unreadable { path: table.to_owned(), source };
    let mut rows = Vec::new();
    for row in BufReader::new(File::open(table).map_err(unreadable)?).split(b'\n').skip(1) {
        rows.extend(unix_listener(&row.map_err(unreadable)?));
    }
    Ok(rows)
}

/// `Num RefCount Protocol Flags Type St Inode Path`: path and inode of a socket that accepts connections
/// (flag `__SO_ACCEPTCON`, 0x10000).
fn unix_listener(row: &[u8]) -> Option<(PathBuf, u64)> {
    use std::os::unix::ffi::OsStrExt;
    let mut rest = row;
    let mut columns = [&row[..0]; 7];
    for column in &mut columns {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        (*column, rest) = rest.split_at(end);
    }
    let flags = u32::from_str_radix(std::str::from_utf8(columns[3]).ok()?, 16).ok()?;
    // One blank ends the inode; what follows is the path, which may hold blanks itself.
    let path = rest.get(1..).filter(|path| !path.is_empty())?;
    (flags & 0x1_0000 != 0)
        .then(|| Some((PathBuf::from(std::ffi::OsStr::from_bytes(path)), number(columns[6])?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_of_the_kernels_tables_are_read() {
        let cases = [
            ("0100007F:1FA2", "127.0.0.1:8098"),
            ("00000000:07E8", "0.0.0.0:2024"),
            ("00000000000000000000000000000000:0050", "[::]:80"),
            ("00000000000000000000000001000000:FFFF", "[::1]:65535"),
            ("B80D0120000000000000000001000000:01BB", "[2001:db8::1]:443"),
            ("0000000000000000FFFF00000100007F:0001", "[::ffff:127.0.0.1]:1"),
        ];
        for (text, expected) in cases {
            assert_eq!(socket_address(text), Some(expected.parse().unwrap()), "{text}");
        }
        for bad in ["", ":", "0100007F", "0100007F:", "0100007:1", "0100007G:0001", "0100007F:10000", "é00007F:1"] {
            assert_eq!(socket_address(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_rows_that_listen_count() {
        let row = |state: &str| {
            format!(
                "   1: 0100007F:1FA2 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 466495 1 0000 100 0 0 10 0"
            )
        };
        assert_eq!(listener(row("0A").as_bytes()).map(|l| l.inode), Some(466_495));
        assert_eq!(listener(row("01").as_bytes()), None);
        assert_eq!(listener(b"  sl  local_address"), None);
        assert_eq!(listener(b""), None);
    }

    #[test]
    fn unix_rows_are_read_with_blanks_in_the_path_and_without_a_path() {
        let of = |row: &str| unix_listener(row.as_bytes());
        let listening = "00000000c955410c: 00000002 00000000 00010000 0001 01 26 /tmp/a b ";
        assert_eq!(of(listening), Some((PathBuf::from("/tmp/a b "), 26)));
        assert_eq!(of("00000000c955410c: 00000003 00000000 00000000 0001 03 26 /tmp/x"), None);
        assert_eq!(of("00000000c955410c: 00000002 00000000 00010000 0001 01    27"), None);
        assert_eq!(of("00000000c955410c: 00000002 00000000 00010000 0001 01 27 @abstract").unwrap().1, 27);
        assert_eq!(of(""), None);
    }
}
