//! From rustls' errors to the faults a report knows, and to one sentence with all that is known.

use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible};
use std::time::Duration;
use wire::tls::{Fault, words};

/// Names shown of a certificate that has many.
const NAMES_SHOWN_MAX: usize = 8;

/// The fault of an error.
pub(super) fn of(error: &Error) -> Fault {
    match error {
        Error::AlertReceived(alert) => Fault::Alert(u8::from(*alert)),
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::NoCertificatesPresented => Fault::NoCertificate,
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        ) => Fault::Malformed,
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerSentOversizedRecord => Fault::Malformed,
        Error::DecryptError => Fault::CannotDecrypt,
        Error::PeerIncompatible(why) => match why {
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired => Fault::NoVersion,
            PeerIncompatible::NoCipherSuitesInCommon => Fault::NoCipher,
            PeerIncompatible::NoKxGroupsInCommon => Fault::NoGroup,
            _ => Fault::Incompatible,
        },
        Error::PeerMisbehaved(why) => match why {
            rustls::PeerMisbehaved::SelectedUnofferedApplicationProtocol => Fault::NoProtocol,
            rustls::PeerMisbehaved::SelectedUnofferedCipherSuite => Fault::NoCipher,
            rustls::PeerMisbehaved::SelectedUnofferedKxGroup => Fault::NoGroup,
            _ => Fault::Misbehaved,
        },
        Error::NoApplicationProtocol => Fault::NoProtocol,
        _ => Fault::Own,
    }
}

fn of_certificate(why: &CertificateError) -> Fault {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Fault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Fault::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Fault::WrongName,
        CertificateError::UnknownIssuer => Fault::UnknownIssuer,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Fault::WrongPurpose,
        CertificateError::BadSignature => Fault::BadSignature,
        CertificateError::BadEncoding => Fault::BadCertificate,
        CertificateError::Revoked => Fault::Revoked,
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => Fault::WeakCertificate,
        // webpki has no public name for it.
        CertificateError::Other(why) if why.to_string().contains("CaUsedAsEndEntity") => Fault::AuthoritysOwn,
        _ => Fault::OtherCertificate,
    }
}

/// All that is known of an error, in a sentence.
pub(super) fn sentence(error: &Error, fault: Fault) -> String {
    let coarse = words(fault.number()).unwrap_or_default();
    match error {
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            let shown: Vec<String> = presented.iter().take(NAMES_SHOWN_MAX).map(|name| plain_name(name)).collect();
            let more = presented.len().saturating_sub(NAMES_SHOWN_MAX);
            let names = match (shown.is_empty(), more) {
                (true, _) => "no name at all".to_owned(),
                (false, 0) => shown.join(", "),
                (false, more) => format!("{} and {more} more", shown.join(", ")),
            };
            format!("the server's certificate is for {names}, not for {}", expected.to_str())
        }
        Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => {
            let ago = Duration::from_secs(time.as_secs().saturating_sub(not_after.as_secs()));
            format!("{coarse}, {} ago", days(ago))
        }
        Error::InvalidCertificate(CertificateError::NotValidYetContext { time, not_before }) => {
            let left = Duration::from_secs(not_before.as_secs().saturating_sub(time.as_secs()));
            format!("{coarse}, but will be in {}", days(left))
        }
        Error::AlertReceived(_) | Error::InvalidCertificate(CertificateError::UnknownIssuer) => coarse.into_owned(),
        other => format!("{coarse} ({other})"),
    }
}

/// webpki shows names in its own debug form: `DnsName("a")`.
fn plain_name(name: &str) -> String {
    match name.split_once("(\"").and_then(|(_, rest)| rest.strip_suffix("\")")) {
        Some(inner) => inner.to_owned(),
        None => name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')')).to_owned(),
    }
}

fn days(length: Duration) -> String {
    match length.as_secs() / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::AlertDescription;
    use rustls::pki_types::{ServerName, UnixTime};

    #[track_caller]
    fn check(error: Error, expected: &str) {
        assert_eq!(sentence(&error, of(&error)), expected);
    }

    #[test]
    fn sentences_name_what_is_wrong() {
        let context = |presented: &[&str]| {
            Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("here.test").unwrap(),
                presented: presented.iter().map(|name| (*name).to_owned()).collect(),
            })
        };
        check(
            context(&["DnsName(\"a.test\")", "DnsName(\"*.b.test\")", "IpAddress(127.0.0.1)"]),
            "the server's certificate is for a.test, *.b.test, 127.0.0.1, not for here.test",
        );
        check(context(&[]), "the server's certificate is for no name at all, not for here.test");
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
        check(
            Error::InvalidCertificate(CertificateError::ExpiredContext { time: at(20), not_after: at(17) }),
            "the server's certificate has expired, 3 days ago",
        );
        check(
            Error::AlertReceived(AlertDescription::CertificateRequired),
            "the server gave up with the TLS alert certificate_required (a client certificate is asked for: --cert and --key)",
        );
    }
}
