//! Who may look at the page, and who may give orders by it.
//!
//! - A page on loopback answers only to names of this machine and to addresses: a page from elsewhere whose name was made to
//!   mean this machine (DNS rebinding) is refused.
//! - Where there is a token, it comes once in the address that was printed; from then on as a cookie that no script reads and
//!   no other site sends.
//! - An order is taken only where orders are, only with the token, and only from the page itself: its `Origin` (RFC 6454, 7) is
//!   where the request goes.

use remote::Token;
use std::net::IpAddr;

/// Who may.
#[derive(Debug)]
pub struct Access {
    /// Whether it listens on loopback.
    pub is_local: bool,
    /// Whether it is asked by TLS.
    pub has_tls: bool,
    /// Whether orders are taken.
    pub takes_orders: bool,
    /// What whoever asks must have.
    pub token: Option<Token>,
    /// The cookie that it comes in. Browsers send a host's cookies to all of its ports, so each server has a name of its own.
    pub cookie: String,
}

/// Why somebody may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not by this name.
    #[error("this page is shown at localhost and at addresses only, not at the name that was asked for")]
    Host,
    /// Without the token.
    #[error("expected the token: open the whole address that plimsoll printed, with ?token= and what follows")]
    Token,
    /// From another page.
    #[error("orders are taken from the page itself only")]
    Origin,
    /// Orders are not taken.
    #[error("orders are not taken: start the run with --live-control")]
    NoOrders,
}

impl Access {
    /// Whether somebody may look: what he asked for it by (`Host`), and the cookies that he sent.
    ///
    /// # Errors
    /// Why not.
    pub fn may_look(&self, host: Option<&str>, cookies: Option<&str>) -> Result<(), Refused> {
        if self.is_local && !host.is_some_and(is_here) {
            return Err(Refused::Host);
        }
        match &self.token {
            Some(token) if !self.sent(cookies.unwrap_or_default()).any(|sent| token.is(sent)) => Err(Refused::Token),
            _ => Ok(()),
        }
    }

    /// Whether somebody who may look may give orders.
    ///
    /// # Errors
    /// Why not.
    pub fn may_order(&self, host: Option<&str>, origin: Option<&str>) -> Result<(), Refused> {
        if !self.takes_orders || self.token.is_none() {
            return Err(Refused::NoOrders);
        }
        let scheme = if self.has_tls { "https" } else { "http" };
        match (host, origin) {
            (Some(host), Some(origin)) if *origin == format!("{scheme}://{host}") => Ok(()),
            _ => Err(Refused::Origin),
        }
    }

    /// The cookie of somebody who came with the token.
    ///
    /// # Errors
    /// It is another token, or there is none.
    pub fn set_cookie(&self, given: &str) -> Result<String, Refused> {
        let token = self.token.as_ref().filter(|token| token.is(given)).ok_or(Refused::Token)?;
        let secure = if self.has_tls { "; Secure" } else { "" };
        Ok(format!("{}={}; HttpOnly; SameSite=Strict; Path=/{secure}", self.cookie, token.text()))
    }

    /// The tokens among cookies.
    fn sent<'a>(&'a self, cookies: &'a str) -> impl Iterator<Item = &'a str> {
        cookies.split(';').filter_map(|one| one.trim().strip_prefix(&*self.cookie)?.strip_prefix('='))
    }
}

/// Whether a host, perhaps with a port, is this machine by name or by address.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(is_local: bool, takes_orders: bool, has_token: bool) -> Access {
        let token = has_token.then(|| Token::parse("0123456789abcdef").unwrap());
        Access { is_local, has_tls: !is_local, takes_orders, token, cookie: "plimsoll-7".to_owned() }
    }

    #[test]
    fn a_page_on_loopback_is_shown_by_no_foreign_name() {
        let access = access(true, false, false);
        for here in ["127.0.0.1:7546", "localhost:9", "LOCALHOST", "[::1]:80", "[::1]", "10.0.0.1:1"] {
            assert_eq!(access.may_look(Some(here), None), Ok(()), "{here}");
        }
        for foreign in ["evil.example:7546", "localhost.evil.example", "", "[::1", "127.0.0.1.evil.example:7546"] {
            let is_shown = access.may_look(Some(foreign), None).is_ok();
            assert!(!is_shown || foreign == "[::1", "{foreign}");
        }
        assert_eq!(access.may_look(None, None), Err(Refused::Host));
    }

    #[test]
    fn where_there_is_a_token_nothing_is_shown_without_it() {
        for access in [access(false, false, true), access(true, true, true)] {
            let host = Some("127.0.0.1:1");
            assert_eq!(access.may_look(host, None), Err(Refused::Token));
            for wrong in ["", "plimsoll-7=", "plimsoll-7=0123456789abcdee", "other=0123456789abcdef"] {
                assert_eq!(access.may_look(host, Some(wrong)), Err(Refused::Token), "{wrong}");
            }
            assert_eq!(access.may_look(host, Some("a=b; plimsoll-7=0123456789abcdef")), Ok(()));
            // Beside that of another server of this host, whose name begins alike.
            let two = Some("plimsoll-70=fedcba9876543210; plimsoll-7=0123456789abcdef");
            assert_eq!(access.may_look(host, two), Ok(()));
            assert_eq!(access.set_cookie("0123456789abcdee"), Err(Refused::Token));
            let cookie = access.set_cookie("0123456789abcdef").unwrap();
            assert!(cookie.contains("HttpOnly; SameSite=Strict") && cookie.contains("Secure") == access.has_tls);
        }
    }

    #[test]
    fn orders_come_from_the_page_itself() {
        let access_of = access(true, true, true);
        let host = Some("localhost:7546");
        assert_eq!(access_of.may_order(host, Some("http://localhost:7546")), Ok(()));
        for foreign in ["http://evil.example", "https://localhost:7546", "http://localhost:7547", "null", ""] {
            assert_eq!(access_of.may_order(host, Some(foreign)), Err(Refused::Origin), "{foreign}");
        }
        assert_eq!(access_of.may_order(host, None), Err(Refused::Origin));
        assert_eq!(access(true, false, false).may_order(host, Some("http://localhost:7546")), Err(Refused::NoOrders));
    }
}
