//! Which network namespace a route leads into, by rtnetlink(7): the device of the route, and the namespace that the
//! other end of it is in, or the other ends of a bridge's ports. Nothing is sent but to the kernel.
//! Cost: three requests, one of which lists the links of this namespace. Needs no privilege.

use super::sockets::sock_diag::u32_at;
use crate::limits::{LISTENERS_BYTES_MAX, LISTENERS_WAIT};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::net::IpAddr;

// linux/netlink.h, linux/rtnetlink.h, linux/if_link.h and linux/net_namespace.h.
/// Number 0, as of a protocol that is not named.
const NETLINK_ROUTE: Option<Protocol> = None;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNSID: u16 = 90;
/// The kernel answers with the request's number less two, as it counts groups of four.
const REPLY: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINK_NETNSID: u16 = 37;
const NETNSA_NSID: u16 = 1;
const NETNSA_PID: u16 = 2;
/// Bytes of `struct nlmsghdr`, `rtmsg`, `ifinfomsg`, and `rtgenmsg` with its padding.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const LINK_BYTES: usize = 16;
const NSID_BYTES: usize = 4;
const DATAGRAM_BYTES: usize = 32 << 10;

/// Of some processes in other network namespaces, the one in whose namespace the route to the address ends; `None`: it
/// is not known, or there are several.
pub(crate) fn leads_into(ip: IpAddr, pids: &[u32]) -> Option<u32> {
    let device = device_to(ip.to_canonical())?;
    let mut ends = Vec::new();
    // The list comes first: by it the kernel gives the namespaces numbers.
    ask(RTM_GETLINK, NLM_F_DUMP, &[0; LINK_BYTES], |link| {
        let number = |kind| attribute(link.get(LINK_BYTES..)?, kind);
        let is_of_it = u32_at(link, 4) == Some(device) || number(IFLA_MASTER) == Some(device);
        ends.extend(number(IFLA_LINK_NETNSID).filter(|_| is_of_it));
    })?;
    let mut found = pids.iter().filter(|pid| number_of_namespace(**pid).is_some_and(|number| ends.contains(&number)));
    let first = found.next()?;
    found.next().is_none().then_some(*first)
}

/// The device through which the route to an address goes.
fn device_to(ip: IpAddr) -> Option<u32> {
    let (family, address) = match ip {
        IpAddr::V4(ip) => (2, ip.octets().to_vec()),
        IpAddr::V6(ip) => (10, ip.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_BYTES];
    (body[0], body[1]) = (family, u8::try_from(8 * address.len()).ok()?);
    push_attribute(&mut body, RTA_DST, &address);
    let mut device = None;
    ask(RTM_GETROUTE, 0, &body, |route| {
        device = route.get(ROUTE_BYTES..).and_then(|attributes| attribute(attributes, RTA_OIF));
    })?;
    device
}

/// The number that this namespace knows a process's namespace by; `None`: it has none.
fn number_of_namespace(pid: u32) -> Option<u32> {
    let mut body = vec![0; NSID_BYTES];
    push_attribute(&mut body, NETNSA_PID, &pid.to_ne_bytes());
    let mut number = None;
    ask(RTM_GETNSID, 0, &body, |answer| {
        number = answer.get(NSID_BYTES..).and_then(|attributes| attribute(attributes, NETNSA_NSID));
    })?;
    // Without a number it is −1.
    number.filter(|number| number.cast_signed() >= 0)
}

fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The number that an attribute of this kind holds.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<u32> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = attributes.get(4..length.max(4))?;
        if kind == wanted {
            return u32_at(value, 0);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// Asks the kernel and calls with the payload of each answer; `None`: it did not answer as it should.
fn ask(kind: u16, flags: u16, body: &[u8], mut each: impl FnMut(&[u8])) -> Option<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, NETLINK_ROUTE).ok()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(LISTENERS_WAIT)).ok()?;
    connect(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(u32::try_from(HEADER_BYTES + body.len()).ok()?.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty()).ok()?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut bytes_left = LISTENERS_BYTES_MAX;
    loop {
        let (_, length) = rustix::io::retry_on_intr(|| recv(&socket, &mut *buffer, RecvFlags::TRUNC)).ok()?;
        let mut rest = buffer.get(..length).filter(|datagram| !datagram.is_empty())?;
        bytes_left = bytes_left.checked_sub(length)?;
        while !rest.is_empty() {
            let length = usize::try_from(u32_at(rest, 0)?).ok().filter(|length| *length >= HEADER_BYTES)?;
            let message = rest.get(..length)?;
            match u16::from_ne_bytes([message[4], message[5]]) {
                // The end of a list. An error ends it too, and is none.
                3 => return Some(()),
                2 => return None,
                answer if answer == kind - REPLY => each(&message[HEADER_BYTES..]),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP == 0 {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_hostile_ones_end_the_search() {
        let mut body = Vec::new();
        push_attribute(&mut body, 3, b"lo\0");
        push_attribute(&mut body, RTA_OIF, &7u32.to_ne_bytes());
        assert_eq!((attribute(&body, RTA_OIF), attribute(&body, 99)), (Some(7), None));
        for cut in 0..body.len() {
            assert_eq!(attribute(&body[..cut], RTA_OIF), None, "{cut}");
        }
        for length in [0u16, 1, 3, 9, 0xffff] {
            body[..2].copy_from_slice(&length.to_ne_bytes());
            let _ = attribute(&body, RTA_OIF);
        }
    }

    #[test]
    fn the_route_to_the_loopback_goes_through_it_and_into_no_other_namespace() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        // Number 1 in every namespace.
        assert_eq!(device_to(loopback), Some(1));
        assert_eq!(number_of_namespace(std::process::id()), None);
        assert_eq!(leads_into(loopback, &[std::process::id()]), None);
    }
}
