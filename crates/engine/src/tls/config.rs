//! From a plan to what rustls needs: one configuration for each worker, shared by its connections.

use super::names;
use super::store::Sessions;
use super::verify::AnyCertificate;
use model::tls::{TlsError, TlsPlan, TlsVersion, Verify};
use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::collections::HashSet;
use std::sync::Arc;

/// What the connections of one worker share.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    client: Arc<ClientConfig>,
    names: Vec<ServerName<'static>>,
    resumes: bool,
}

impl TlsConfig {
    /// The configuration of one worker with so many connections, and a memory for sessions of its own.
    ///
    /// # Errors
    /// [`TlsError`], where the plan asks for what does not exist or does not go together.
    pub fn new(plan: &TlsPlan, connections: u32) -> Result<Self, TlsError> {
        let provider = Arc::new(provider(plan)?);
        let versions: Vec<&'static SupportedProtocolVersion> = plan
            .versions
            .iter()
            .map(|version| match version {
                TlsVersion::V12 => &TLS12,
                TlsVersion::V13 => &TLS13,
            })
            .collect();
        let apart = |error: rustls::Error| TlsError::Apart { why: error.to_string() };
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions).map_err(apart)?;
        let builder = match &plan.verify {
            Verify::Off => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider.clone())))
            }
            Verify::System(trusted) | Verify::File(trusted) => builder.with_root_certificates(roots(&trusted.der)?),
        };
        let mut client = match &plan.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain =
                    certificates(identity.certificate_pem.expose())?.into_iter().map(CertificateDer::from).collect();
                let key = private_key(identity.key_pem.expose())?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| TlsError::Identity { why: error.to_string() })?
            }
        };
        let names = plan.server_names.iter().map(|name| server_name(name)).collect::<Result<Vec<_>, _>>()?;
        client.alpn_protocols = plan.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        let servers = names.iter().collect::<HashSet<_>>().len().max(1);
        let sessions = Arc::new(Sessions::new(servers, connections as usize, plan.resume));
        client.resumption = Resumption::store(sessions);
        if !plan.resume {
            client.resumption = client.resumption.tls12_resumption(Tls12Resumption::Disabled);
        }
        Ok(TlsConfig { client: Arc::new(client), names, resumes: plan.resume })
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }

    /// The name an origin's certificate must have. A plan has one for each of its origins.
    pub(super) fn server_name(&self, origin: u16) -> ServerName<'static> {
        match self.names.get(usize::from(origin)) {
            Some(name) => name.clone(),
            None => ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()),
        }
    }

    /// Whether sessions are resumed.
    pub fn resumes(&self) -> bool {
        self.resumes
    }
}

/// Whether a plan's TLS can be set up.
///
/// # Errors
/// [`TlsError`], as [`TlsConfig::new`].
pub fn check(plan: &TlsPlan) -> Result<(), TlsError> {
    TlsConfig::new(plan, 1).map(drop)
}

/// The certificates of a PEM text, each in DER.
///
/// # Errors
/// [`TlsError::Certificates`] where there is none or one is broken.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, TlsError> {
    let broken = |error: rustls::pki_types::pem::Error| TlsError::Certificates { got: error.to_string() };
    let found = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(broken)?;
    if found.is_empty() { Err(TlsError::Certificates { got: "a file without any".to_owned() }) } else { Ok(found) }
}

/// The first private key of a PEM text.
///
/// # Errors
/// [`TlsError::Key`] where there is none, or one that is encrypted.
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| TlsError::Key {
        got: match error {
            rustls::pki_types::pem::Error::NoItemsFound => "a file without any".to_owned(),
            other => other.to_string(),
        },
    })
}

fn provider(plan: &TlsPlan) -> Result<CryptoProvider, TlsError> {
    let cipher_suites = plan
        .ciphers
        .iter()
        .map(|name| names::cipher(name).ok_or_else(|| names::no_cipher(name)))
        .collect::<Result<Vec<_>, _>>()?;
    let kx_groups = plan
        .groups
        .iter()
        .map(|name| names::group(name).ok_or_else(|| names::no_group(name)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(CryptoProvider { cipher_suites, kx_groups, ..aws_lc_rs::default_provider() })
}

fn roots(der: &[Vec<u8>]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // The machine's own list may have one that is too odd to be used; the others are good.
    let (added, _) = store.add_parsable_certificates(der.iter().map(|der| CertificateDer::from_slice(der)));
    if added == 0 { Err(TlsError::Roots { count: der.len() }) } else { Ok(store) }
}

fn server_name(text: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    ServerName::try_from(bare).map(|name| name.to_owned()).map_err(|_| TlsError::ServerName { got: text.to_owned() })
}
