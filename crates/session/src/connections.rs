//! From `HOST:PORT` as written to the addresses whose connections are meant.

use resolve::Host;
use std::net::SocketAddr;

/// Why a text names no address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Not of the form.
    #[error("expected HOST:PORT such as 127.0.0.1:8080 or [::1]:8080, got '{}'", got.escape_debug())]
    Form {
        /// As written.
        got: String,
    },
    /// The name has no address.
    #[error("expected '{name}' to have an address, but the resolver found none ({why}): check the name")]
    NotFound {
        /// The name.
        name: String,
        /// What the resolver said.
        why: String,
    },
}

/// Every address of `HOST:PORT`.
///
/// # Errors
/// [`AddressError`].
pub fn addresses(text: &str, host: &dyn Host) -> Result<Vec<SocketAddr>, AddressError> {
    let form = || AddressError::Form { got: text.to_owned() };
    let (name, port) = text.rsplit_once(':').ok_or_else(form)?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(form)?;
    let name = match name.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|name| name.contains(':')).ok_or_else(form)?,
        None if name.contains(':') => return Err(form()),
        None => name,
    };
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') {
        return Err(form());
    }
    let not_found = |why: String| AddressError::NotFound { name: name.to_owned(), why };
    let found = host.lookup(name, port).map_err(|error| not_found(error.to_string()))?;
    if found.is_empty() { Err(not_found("it has none".to_owned())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolve::SystemHost;

    #[test]
    fn only_a_host_with_a_port_is_an_address() {
        let host = SystemHost::new(|| Ok(()), engine::tls::NAMES);
        let of = |text| addresses(text, &host).map(|all| all[0].to_string());
        assert_eq!(of("127.0.0.1:8080").unwrap(), "127.0.0.1:8080");
        assert_eq!(of("[::1]:80").unwrap(), "[::1]:80");
        for bad in ["", ":80", "h", "h:", "h:0", "h:70000", "::1:80", "[::1]", "[h]:80", "http://h:80", "a b:1", "\0:1"]
        {
            assert!(matches!(of(bad), Err(AddressError::Form { .. })), "{bad}");
        }
        assert!(matches!(of("no-such-host.invalid:80"), Err(AddressError::NotFound { .. })));
    }
}
