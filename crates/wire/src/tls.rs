//! The numbers that say why TLS failed, and their words.
//!
//! TLS itself is spoken by the engine, between its sockets and the machines of this crate; what is here is what reports
//! need of it. Numbers are stored in recordings: never change one, add new ones. All begin with the byte 0x54, which no
//! protocol's own numbers do; an alert's number is in the lowest byte.

use std::borrow::Cow;

/// What every number begins with.
const BASE: u32 = 0x5400_0000;
/// Where the numbers of alerts begin: this + the alert's own (RFC 8446 §6).
const ALERT: u32 = BASE | 0x0001_0000;

macro_rules! faults {
    ($( $(#[$doc:meta])* $name:ident = $number:literal, $words:literal; )+) => {
        /// Why TLS failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            $( $(#[$doc])* $name, )+
            /// The peer gave up, with this alert.
            Alert(u8),
        }

        /// Those without an alert, with their numbers and words.
        const NAMED: &[(Fault, u32, &str)] = &[ $( (Fault::$name, BASE | $number, $words) ),+ ];
    };
}

faults! {
    /// The first bytes are no TLS record.
    NotTls = 1, "what came is not TLS: the server speaks something else on this port (without TLS: http://, echo://, ws://)";
    /// The peer closed in the middle of the handshake.
    ClosedInHandshake = 2, "the peer closed in the middle of the handshake";
    /// The connect timeout passed.
    TimedOut = 3, "the handshake was not done within the connect timeout";
    /// The peer closed without close_notify while a reply was due (RFC 8446 §6.1).
    Truncated = 4, "the connection was closed without TLS's close_notify: what came may have been cut off";

    /// The certificate's last day has passed.
    Expired = 10, "the server's certificate has expired";
    /// Its first has not come.
    NotYetValid = 11, "the server's certificate is not valid yet";
    /// Names.
    WrongName = 12, "the server's certificate is for another name (--sni says which name is expected)";
    /// Chain.
    UnknownIssuer = 13, "the server's certificate has an unknown issuer (--ca names one to trust, --insecure trusts all)";
    /// Purpose.
    WrongPurpose = 14, "the server's certificate is not one for servers";
    /// Signature.
    BadSignature = 15, "a signature of the server's cannot be accepted: a key is too short (RSA below 2048 bits), or the issuer only has the name of a trusted one";
    /// Encoding.
    BadCertificate = 16, "the server's certificate cannot be read";
    /// Revoked.
    Revoked = 17, "the server's certificate is revoked";
    /// An algorithm that is not known, or a key that is too weak.
    WeakCertificate = 18, "the server's certificate is signed in a way, or has a key, that is not accepted";
    /// Of a self-signed certificate with the CA flag, and such.
    OtherCertificate = 19, "the server's certificate is not accepted";
    /// A certificate authority's own, as `openssl req -x509` makes them.
    AuthoritysOwn = 21, "the server's certificate is an authority's own and not one for a server: sign another with it, or use --insecure";
    /// None.
    NoCertificate = 20, "the server showed no certificate";

    /// Versions.
    NoVersion = 30, "the server speaks none of the TLS versions offered (--tls-version)";
    /// Suites.
    NoCipher = 31, "no cipher suite in common (--ciphers)";
    /// Groups.
    NoGroup = 32, "no key exchange group in common (--groups)";
    /// ALPN.
    NoProtocol = 33, "no application protocol in common (--alpn)";
    /// Other.
    Incompatible = 34, "the server lacks something of TLS that is needed";

    /// The peer broke the rules.
    Misbehaved = 40, "the server broke a rule of TLS";
    /// A message that cannot be taken apart.
    Malformed = 41, "a TLS message of the server's is malformed, or came when it may not";
    /// A record that cannot be decrypted.
    CannotDecrypt = 42, "a TLS record cannot be decrypted";
    /// A fault of our own side.
    Own = 43, "the generator's own side of TLS failed";
}

/// Alerts by their number (RFC 8446 §6, RFC 5246 §7.2), with what each usually means to one who meets it.
const ALERTS: &[(u8, &str)] = &[
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (21, "decryption_failed"),
    (22, "record_overflow"),
    (40, "handshake_failure (no cipher suite, group or signature in common, or a client certificate is missing)"),
    (41, "no_certificate"),
    (42, "bad_certificate (the client certificate, --cert)"),
    (43, "unsupported_certificate (the client certificate, --cert)"),
    (44, "certificate_revoked (the client certificate, --cert)"),
    (45, "certificate_expired (the client certificate, --cert)"),
    (46, "certificate_unknown (the client certificate, --cert)"),
    (47, "illegal_parameter"),
    (48, "unknown_ca (the client certificate's issuer, --cert)"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (70, "protocol_version (none of the versions offered, --tls-version)"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (112, "unrecognized_name (--sni)"),
    (113, "bad_certificate_status_response"),
    (115, "unknown_psk_identity"),
    (116, "certificate_required (a client certificate is asked for: --cert and --key)"),
    (120, "no_application_protocol (--alpn)"),
];

impl Fault {
    /// As the detail of a failure.
    pub fn number(self) -> u32 {
        match self {
            Fault::Alert(alert) => ALERT | u32::from(alert),
            named => NAMED.iter().find(|(fault, ..)| *fault == named).map_or(BASE, |(_, number, _)| *number),
        }
    }
}

/// Whether a number is an alert by which a server refuses who asks: a missing client certificate, or the one that was shown
/// (RFC 8446 §4.4.2.4, §6.2).
pub fn is_refusal(detail: u32) -> bool {
    detail & !0xff == ALERT && matches!(detail & 0xff, 40..=46 | 48 | 49 | 51 | 116)
}

/// The words of a number; `None` for those of protocols.
pub fn words(detail: u32) -> Option<Cow<'static, str>> {
    if detail & !0xff == ALERT {
        let alert = (detail & 0xff) as u8;
        let name = ALERTS.iter().find(|(number, _)| *number == alert).map(|(_, name)| *name);
        return Some(Cow::Owned(match name {
            Some(name) => format!("the server gave up with the TLS alert {name}"),
            None => format!("the server gave up with the TLS alert {alert}"),
        }));
    }
    NAMED.iter().find(|(_, number, _)| *number == detail).map(|(.., words)| Cow::Borrowed(*words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_number_and_words_of_its_own() {
        for (at, (fault, number, text)) in NAMED.iter().enumerate() {
            assert_eq!(fault.number(), *number);
            assert_eq!(words(*number).as_deref(), Some(*text));
            assert!(NAMED[..at].iter().all(|(_, other, same)| other != number && same != text), "{fault:?}");
        }
        assert_eq!(
            words(Fault::Alert(40).number()).unwrap().split(" (").next().unwrap(),
            "the server gave up with the TLS alert handshake_failure"
        );
        let refusals = [Fault::Alert(116), Fault::Alert(48), Fault::Alert(80), Fault::Expired].map(Fault::number);
        assert_eq!(refusals.map(is_refusal), [true, true, false, false]);
        assert_eq!(words(Fault::Alert(255).number()).unwrap(), "the server gave up with the TLS alert 255");
    }

    #[test]
    fn numbers_of_protocols_are_not_ours_and_ours_are_not_theirs() {
        for detail in [0, 1, 36, 1404, 0x1000_0000, 0x1000_03e7, 0x3fff_ffff, u32::MAX, BASE] {
            assert_eq!(words(detail), None, "{detail:#x}");
        }
        let ours = NAMED.iter().map(|(fault, ..)| *fault).chain((0..=255).map(Fault::Alert));
        for fault in ours {
            let number = fault.number();
            assert_eq!((crate::http1::words(number), crate::echo::words(number)), (None, None), "{fault:?}");
        }
    }
}
