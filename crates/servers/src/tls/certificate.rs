//! Certificates and keys: made at the start with rcgen, or read from PEM files.
//!
//! A made certificate is signed with its own key, so that trusting it is trusting that one file. Its key
//! never leaves the process. Cost: microseconds for elliptic curves, up to seconds for RSA.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, RsaKeySize, date_time_ymd};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Certificate, KeyKind, MadeCertificate, TlsError};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The chain and key a server shows; `listen` are the addresses asked for.
pub(super) fn load(
    certificate: &Certificate,
    listen: &[SocketAddr],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    match certificate {
        Certificate::Made(made) => make(made, listen),
        Certificate::Files { chain, key } => Ok((read_chain(chain, "a certificate chain")?, read_key(key)?)),
    }
}

/// All certificates of a PEM file, at least one.
pub(super) fn read_chain(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read() {
        Ok(chain) if chain.is_empty() => Err(bad_file(what, path, &pem::Error::NoItemsFound)),
        Ok(chain) => Ok(chain),
        Err(error) => Err(bad_file(what, path, &error)),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| bad_file("a private key", path, &error))
}

fn bad_file(what: &'static str, path: &Path, error: &pem::Error) -> TlsError {
    let got = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "none".to_owned(),
        other => format!("PEM that is malformed ({other})"),
    };
    TlsError::BadFile { what, path: path.to_owned(), got }
}

fn make(
    made: &MadeCertificate,
    listen: &[SocketAddr],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let library = |doing| move |error: rcgen::Error| TlsError::Library { doing, got: error.to_string() };
    let key = generate(made.key).map_err(library("make a key"))?;
    let certificate = params(made, listen)?.self_signed(&key).map_err(library("sign the certificate"))?;
    if let Some(path) = &made.out {
        std::fs::write(path, certificate.pem())
            .map_err(|source| TlsError::CannotWrite { path: path.clone(), source })?;
    }
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], key.into()))
}

fn generate(kind: KeyKind) -> Result<KeyPair, rcgen::Error> {
    let rsa = |size| KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
    match kind {
        KeyKind::Rsa2048 => rsa(RsaKeySize::_2048),
        KeyKind::Rsa3072 => rsa(RsaKeySize::_3072),
        KeyKind::Rsa4096 => rsa(RsaKeySize::_4096),
        KeyKind::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyKind::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyKind::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
    }
}

fn params(made: &MadeCertificate, listen: &[SocketAddr]) -> Result<CertificateParams, TlsError> {
    let mut names = made.names.clone();
    if names.is_empty() {
        names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        // Nobody connects to 0.0.0.0 or [::] by that name.
        let named = listen.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
        for name in named.map(|ip| ip.to_string()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(TlsError::BadName { name: name.clone() });
    }
    let common_name = names[0].clone();
    let mut params = CertificateParams::new(names).map_err(|_| TlsError::BadName { name: common_name.clone() })?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "plimsoll");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if matches!(made.key, KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096) {
        // For the RSA key exchange of old clients' checks; never used here.
        params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (from, to) = match made.expired {
        true => (now.saturating_sub(31 * DAY), now.saturating_sub(DAY)),
        false => (now.saturating_sub(DAY), now.saturating_add(365 * DAY)),
    };
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + from;
    params.not_after = epoch + to;
    Ok(params)
}

/// Whether clients can ask for it: an address, or letters, digits, hyphens, dots and a leading `*`
/// (RFC 5280 §4.2.1.6, RFC 9525 §6.3).
fn is_name(name: &str) -> bool {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && labels.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_clients_can_ask_for() {
        for name in ["localhost", "127.0.0.1", "::1", "a.example", "*.a.example", "a_b-c.example"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "a..b", "a.", "*", "*.", "a b", "ä.example", "a\0b", &"a".repeat(64), "[::1]"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_made_certificate_is_written_as_it_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("ca.pem");
        let made = MadeCertificate { out: Some(out.clone()), ..MadeCertificate::default() };
        let listen = ["192.0.2.7:0".parse().unwrap(), "[::]:0".parse().unwrap(), "127.0.0.1:1".parse().unwrap()];
        let (chain, _) = make(&made, &listen).unwrap();
        assert_eq!(read_chain(&out, "it").unwrap(), chain);
        let names: Vec<_> = params(&made, &listen).unwrap().subject_alt_names;
        let ips = names.iter().filter(|name| matches!(name, rcgen::SanType::IpAddress(_))).count();
        assert_eq!((names.len(), ips), (4, 3), "{names:?}");
        assert!(matches!(read_key(&out), Err(TlsError::BadFile { .. })));
    }
}
