//! The one `ServerConfig` of a server: built once, shared by all workers.
//!
//! The provider is passed, never taken from the process. Sessions are resumed by ticket (sealed with keys
//! that rotate, nothing kept here) or, for TLS 1.2 clients without tickets, from a bounded cache.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};

use super::{Certificate, TlsError, TlsOptions, TlsVersion, certificate};
use crate::limits;

/// Builds it; reads and writes the files the options name. `alpn`: the names of the protocol, if it has any.
pub(crate) fn config(options: &TlsOptions, listen: &[SocketAddr], alpn: &[&str]) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions: &[_] = match options.version {
        None => &[&version::TLS13, &version::TLS12],
        Some(TlsVersion::V1_2) => &[&version::TLS12],
        Some(TlsVersion::V1_3) => &[&version::TLS13],
    };
    let library = |doing| move |error: rustls::Error| TlsError::Library { doing, got: error.to_string() };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(library("set the TLS versions"))?;
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path, &provider)?),
    };
    let (chain, key) = certificate::load(&options.certificate, listen)?;
    if let Certificate::Files { key: path, .. } = &options.certificate {
        // Tried alone first, to tell a key that cannot be used from one that does not fit.
        let refused = |error: rustls::Error| TlsError::BadKey { path: path.clone(), got: error.to_string() };
        provider.key_provider.load_private_key(key.clone_key()).map_err(refused)?;
    }
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| TlsError::BadChain { got: error.to_string() })?;
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    if options.resume {
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(library("make the keys of tickets"))?;
        config.session_storage = ServerSessionMemoryCache::new(limits::TLS_SESSIONS_MAX);
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn client_verifier(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let refused = |got: String| TlsError::BadClientCa { path: path.to_owned(), got };
    let mut roots = RootCertStore::empty();
    for certificate in certificate::read_chain(path, "certificates of authorities")? {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| refused(error.to_string()))
}
