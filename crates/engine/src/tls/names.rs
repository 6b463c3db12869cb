//! The names of suites and groups, as the registries have them and as people write them; what was agreed on, in words.

use model::event::Details;
use model::tls::{TlsError, TlsVersion};
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, DEFAULT_CIPHER_SUITES, kx_group};
use rustls::pki_types::alg_id;
use rustls::server::ParsedCertificate;
use rustls::{ProtocolVersion, SupportedCipherSuite};

/// Groups that can be asked for: name, other names, what rustls has. In the order of the default.
const GROUPS: &[(&str, &[&str], &dyn SupportedKxGroup)] = &[
    ("X25519MLKEM768", &[], kx_group::X25519MLKEM768),
    ("X25519", &[], kx_group::X25519),
    ("P-256", &["secp256r1", "prime256v1", "P256"], kx_group::SECP256R1),
    ("P-384", &["secp384r1", "P384"], kx_group::SECP384R1),
    ("SecP256r1MLKEM768", &[], kx_group::SECP256R1MLKEM768),
];
/// How many of them are offered where nothing else is asked for: as browsers and OpenSSL 3.5 do.
const GROUPS_DEFAULT: usize = 4;

/// A suite's name in the IANA registry; rustls marks those of TLS 1.3.
fn iana(suite: SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or("").replacen("TLS13_", "TLS_", 1)
}

fn version(suite: SupportedCipherSuite) -> TlsVersion {
    if suite.version().version == ProtocolVersion::TLSv1_3 { TlsVersion::V13 } else { TlsVersion::V12 }
}

/// Every cipher suite that can be asked for.
pub fn known_ciphers() -> Vec<String> {
    ALL_CIPHER_SUITES.iter().map(|suite| iana(*suite)).collect()
}

/// Every key exchange group that can be asked for.
pub fn known_groups() -> Vec<String> {
    GROUPS.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

/// The cipher suites of some versions that are offered where nothing else is asked for.
pub fn default_ciphers(versions: &[TlsVersion]) -> Vec<String> {
    let mut names: Vec<(TlsVersion, String)> = DEFAULT_CIPHER_SUITES
        .iter()
        .filter(|suite| versions.contains(&version(**suite)))
        .map(|suite| (version(*suite), iana(*suite)))
        .collect();
    // As browsers do, and RFC 8446 §9.1: AES-128 is secure, mandatory, and hashes in hardware.
    names.sort_by_key(|(version, name)| (std::cmp::Reverse(*version), !name.contains("AES_128")));
    names.into_iter().map(|(_, name)| name).collect()
}

/// The key exchange groups that are offered where nothing else is asked for.
pub fn default_groups() -> Vec<String> {
    GROUPS.iter().take(GROUPS_DEFAULT).map(|(name, ..)| (*name).to_owned()).collect()
}

/// A suite by its IANA or OpenSSL name: `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, `ECDHE-RSA-AES128-GCM-SHA256`.
pub(super) fn cipher(name: &str) -> Option<SupportedCipherSuite> {
    let wanted = bare(name);
    ALL_CIPHER_SUITES.iter().copied().find(|suite| {
        let known = bare(&iana(*suite));
        // OpenSSL leaves the hash of ChaCha20's suites out.
        known == wanted || (known.contains("chacha20") && known.strip_suffix("sha256") == Some(&wanted))
    })
}

/// A name without what differs between the registries.
fn bare(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let lower = lower.strip_prefix("tls_").unwrap_or(&lower).replace("_with_", "_");
    lower.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Why there is no such suite.
pub(super) fn no_cipher(got: &str) -> TlsError {
    TlsError::Cipher { known: known_ciphers(), got: got.to_owned() }
}

/// Why there is no such group.
pub(super) fn no_group(got: &str) -> TlsError {
    TlsError::Group { known: known_groups(), got: got.to_owned() }
}

/// A suite's IANA name and version, by any of its names.
///
/// # Errors
/// [`TlsError::Cipher`].
pub fn cipher_name(text: &str) -> Result<(String, TlsVersion), TlsError> {
    let suite = cipher(text).ok_or_else(|| no_cipher(text))?;
    Ok((iana(suite), version(suite)))
}

/// A group's name as reports have it, by any of its names.
///
/// # Errors
/// [`TlsError::Group`].
pub fn group_name(text: &str) -> Result<String, TlsError> {
    let wanted = group(text).ok_or_else(|| no_group(text))?;
    Ok(GROUPS.iter().find(|(.., group)| group.name() == wanted.name()).map_or("", |(name, ..)| name).to_owned())
}

/// A group by one of its names.
pub(super) fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    GROUPS.iter().find(|(known, others, _)| is(known) || others.iter().any(|other| is(other))).map(|(.., group)| *group)
}

/// What was agreed on: `TLS 1.3, TLS_AES_128_GCM_SHA256, X25519, certificate ECDSA P-256`.
pub(super) fn agreed(connection: &UnbufferedClientConnection) -> String {
    let mut parts = vec![match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLS 1.3".to_owned(),
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2".to_owned(),
        _ => "TLS".to_owned(),
    }];
    parts.extend(connection.negotiated_cipher_suite().map(iana));
    if let Some(group) = connection.negotiated_key_exchange_group() {
        let known = GROUPS.iter().find(|(.., ours)| ours.name() == group.name());
        parts.push(known.map_or_else(|| format!("{:?}", group.name()), |(name, ..)| (*name).to_owned()));
    }
    if let Some((shown, _)) = key_of(connection) {
        parts.push(format!("certificate {}", shown));
    }
    if let Some(protocol) = connection.alpn_protocol() {
        parts.push(format!("ALPN {}", String::from_utf8_lossy(protocol)));
    }
    parts.join(", ")
}

/// The server's certificate as fields; without one, or with a key of a kind that is unknown here, nothing.
pub(super) fn certificate(connection: &UnbufferedClientConnection) -> Details {
    let (certificate, certificate_bits) = key_of(connection).and_then(|(_, known)| known).unzip();
    Details { certificate, certificate_bits, ..Details::default() }
}

/// A key as it is shown; and, where its kind is known, its name as a field and its bits.
type Key = (String, Option<(String, u32)>);

/// The key of the server's certificate.
fn key_of(connection: &UnbufferedClientConnection) -> Option<Key> {
    let certificate = connection.peer_certificates()?.first()?;
    Some(key_kind(&ParsedCertificate::try_from(certificate).ok()?.subject_public_key_info()))
}

/// The kind of key of a SubjectPublicKeyInfo (RFC 5280 §4.1): its algorithm is the first element.
fn key_kind(spki: &[u8]) -> Key {
    let kinds = [
        (alg_id::ECDSA_P256, "ECDSA P-256", "ecdsa-p256", 256),
        (alg_id::ECDSA_P384, "ECDSA P-384", "ecdsa-p384", 384),
        (alg_id::ECDSA_P521, "ECDSA P-521", "ecdsa-p521", 521),
        // 255 (RFC 7748 §4.1), kept in 256.
        (alg_id::ED25519, "Ed25519", "ed25519", 255),
    ];
    let holds = |id: &[u8]| spki.windows(id.len()).take(16).any(|window| window == id);
    if let Some((_, shown, name, bits)) = kinds.iter().find(|(id, ..)| holds(id)) {
        return ((*shown).to_owned(), Some(((*name).to_owned(), *bits)));
    }
    if holds(&alg_id::RSA_ENCRYPTION) {
        // Beside the modulus there are less than 64 bytes: its length is the whole's, down to a multiple of 512 bits.
        let bits = spki.len() * 8 / 512 * 512;
        return (format!("RSA-{bits}"), u32::try_from(bits).ok().map(|bits| (format!("rsa-{bits}"), bits)));
    }
    ("of a kind unknown here".to_owned(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_known_by_both_registries_names() {
        for (name, expected) in [
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            ("tls_chacha20_poly1305_sha256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
        ] {
            assert_eq!(cipher(name).map(iana).as_deref(), Some(expected));
        }
        for name in known_ciphers() {
            assert_eq!(cipher(&name).map(iana), Some(name));
        }
        for bad in ["", "x", "TLS_", "AES128", "TLS_RSA_WITH_AES_128_CBC_SHA"] {
            assert!(cipher(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn each_version_has_suites_of_its_own() {
        let (old, new) = (default_ciphers(&[TlsVersion::V12]), default_ciphers(&[TlsVersion::V13]));
        assert_eq!(new[0], "TLS_AES_128_GCM_SHA256");
        assert!(!old.is_empty() && !new.is_empty() && old.iter().all(|name| !new.contains(name)));
        assert_eq!(default_ciphers(&[TlsVersion::V12, TlsVersion::V13]).len(), old.len() + new.len());
        assert_eq!(default_groups(), ["X25519MLKEM768", "X25519", "P-256", "P-384"]);
        assert!(group("secp256r1").is_some() && group("p-384").is_some() && group("P-999").is_none());
    }

    #[test]
    fn keys_are_told_apart() {
        use rcgen::{KeyPair, PublicKeyData};
        for (algorithm, expected) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, ("ECDSA P-256", "ecdsa-p256", 256)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, ("ECDSA P-384", "ecdsa-p384", 384)),
            (&rcgen::PKCS_ED25519, ("Ed25519", "ed25519", 255)),
            (&rcgen::PKCS_RSA_SHA256, ("RSA-2048", "rsa-2048", 2048)),
        ] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let (shown, known) = key_kind(&key.subject_public_key_info());
            let (name, bits) = known.unwrap();
            assert_eq!((&*shown, &*name, bits), expected);
        }
        assert_eq!(key_kind(b""), ("of a kind unknown here".to_owned(), None));
    }
}
