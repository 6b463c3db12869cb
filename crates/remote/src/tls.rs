//! TLS of the link: 1.3 alone, as the proof of the token needs its exporter; one crypto provider, passed by name.
//!
//! The observer shows a certificate made at its start, or one from files. A run takes any, as the token's proof is bound
//! to the connection (see [`super::token`]), unless a fingerprint or an authority is named; then that must be right too.
//! Sessions are not resumed.

use super::token::{hex, unhex};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Its name in ALPN: what is meant for another protocol is refused before anything is said.
pub(super) const ALPN: &[u8] = b"plimsoll-observe";

/// SHA-256 of a certificate in DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// From 64 hex digits, in pairs with colons between if wanted.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(&text.replace(':', "")).map(Fingerprint)
    }

    /// Of a certificate.
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Which certificate is taken.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Any: the token's proof says who it is.
    Token,
    /// The one of this fingerprint.
    Fingerprint(Fingerprint),
    /// One for the host's name, from an authority of this PEM file.
    Authority(PathBuf),
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file has not what it should have.
    #[error("expected {what} in PEM in {}, got {got}: check the path", path.display())]
    File {
        /// What was expected.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What was there.
        got: String,
    },
    /// rustls or rcgen refuses.
    #[error("expected to {doing}, but {got}")]
    Library {
        /// What was tried.
        doing: &'static str,
        /// In its words.
        got: String,
    },
}

fn library<E: ToString>(doing: &'static str) -> impl Fn(E) -> TlsError {
    move |error| TlsError::Library { doing, got: error.to_string() }
}

/// The observer's side, with the fingerprint of its certificate. `files`: chain and key; without, one is made.
///
/// # Errors
/// [`TlsError`].
pub(super) fn server(files: Option<(&Path, &Path)>) -> Result<(Arc<ServerConfig>, Fingerprint), TlsError> {
    serving(files, &["plimsoll-observe.invalid".to_owned()], ALPN)
}

/// The same for a page that browsers ask for by HTTP/1.1; `names`: what a certificate that is made is for.
///
/// # Errors
/// [`TlsError`].
pub fn page_identity(
    files: Option<(&Path, &Path)>,
    names: &[String],
) -> Result<(Arc<ServerConfig>, Fingerprint), TlsError> {
    serving(files, names, b"http/1.1")
}

fn serving(
    files: Option<(&Path, &Path)>,
    names: &[String],
    alpn: &[u8],
) -> Result<(Arc<ServerConfig>, Fingerprint), TlsError> {
    let (chain, key) = match files {
        Some((chain, key)) => (certificates(chain)?, private_key(key)?),
        None => made(names)?,
    };
    let fingerprint = match chain.first() {
        Some(first) => Fingerprint::of(first),
        None => return Err(TlsError::Library { doing: "show a certificate", got: "there is none".to_owned() }),
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(library("speak TLS 1.3"))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(library("use certificate and key together"))?;
    config.alpn_protocols = vec![alpn.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok((Arc::new(config), fingerprint))
}

/// The run's side, and the name it asks for; `host` as it was written.
///
/// # Errors
/// [`TlsError`].
pub(super) fn client(trust: &Trust, host: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(library("speak TLS 1.3"))?;
    let pinned = |only| {
        let verifier = Pinned { provider: Arc::clone(&provider), only };
        builder.clone().dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
    };
    let mut config = match trust {
        Trust::Token => pinned(None),
        Trust::Fingerprint(fingerprint) => pinned(Some(*fingerprint)),
        Trust::Authority(path) => builder.clone().with_root_certificates(roots(path)?).with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    // Names are for verifying; without that they need not be told to whoever listens.
    config.enable_sni = matches!(trust, Trust::Authority(_));
    let name = ServerName::try_from(host.to_owned()).map_err(library("ask for the observer by its name"))?;
    Ok((Arc::new(config), name))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn made(names: &[String]) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(library("make a key"))?;
    let params = rcgen::CertificateParams::new(names).map_err(library("make a certificate"))?;
    let certificate = params.self_signed(&key).map_err(library("sign the certificate"))?;
    Ok((vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let no_file = |got: String| TlsError::File { what: "certificates", path: path.to_owned(), got };
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| no_file(error.to_string()))?;
    if found.is_empty() { Err(no_file("none".to_owned())) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::File {
        what: "a private key without a passphrase",
        path: path.to_owned(),
        got: error.to_string(),
    })
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(library("trust the authority's certificate"))?;
    }
    Ok(store)
}

/// Takes one certificate, or any; that its key is there is proved in every case.
#[derive(Debug)]
struct Pinned {
    provider: Arc<CryptoProvider>,
    only: Option<Fingerprint>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = Fingerprint::of(shown);
        match self.only {
            Some(only) if only != shown => Err(rustls::Error::General(format!(
                "expected the certificate of fingerprint {only}, got {shown}: something else answers there, or the \
                 observer was started again"
            ))),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_written_with_colons_or_without() {
        let text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF";
        let fingerprint = Fingerprint::parse(text).unwrap();
        assert_eq!(fingerprint.to_string(), text.to_lowercase());
        let pairs: Vec<&str> = (0..64).step_by(2).map(|at| &text[at..at + 2]).collect();
        assert_eq!(Fingerprint::parse(&pairs.join(":")), Some(fingerprint));
        for wrong in ["", "01", &text[1..], "g123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"] {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }
}
