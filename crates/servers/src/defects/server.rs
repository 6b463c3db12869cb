//! The reference servers, by name.

/// A reference server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// `serve echo`.
    Echo,
    /// `serve http`.
    Http,
    /// `serve proxy`.
    Proxy,
    /// `serve names`.
    Names,
    /// `serve ws`.
    WebSocket,
}

impl Server {
    pub(super) const ALL: [Self; 5] = [Self::Echo, Self::Http, Self::Proxy, Self::Names, Self::WebSocket];

    /// As in `plimsoll serve NAME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Http => "http",
            Self::Proxy => "proxy",
            Self::Names => "names",
            Self::WebSocket => "ws",
        }
    }
}
