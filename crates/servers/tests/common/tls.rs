//! TLS for the tests: a client by rustls over any stream, and certificates made for it.
//!
//! Both ends run the same library here, so real clients of others (curl, openssl) are asked as well.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use servers::ServeOptions;
use servers::echo::EchoOptions;
use servers::http::HttpOptions;
use servers::tls::{Certificate, MadeCertificate, TlsOptions};

use super::{Client, HANG_GUARD, Running};

pub type TlsStream<S = TcpStream> = StreamOwned<ClientConnection, S>;

/// A server over TLS, and the file its certificate is in.
pub struct Secure {
    pub server: Running,
    pub ca: PathBuf,
    _folder: tempfile::TempDir,
}

pub fn made(certificate: MadeCertificate) -> TlsOptions {
    TlsOptions { certificate: Certificate::Made(certificate), ..TlsOptions::default() }
}

/// With the certificate, if one is made, written where the client finds it.
fn with_out(mut tls: TlsOptions) -> (TlsOptions, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    if let Certificate::Made(made) = &mut tls.certificate {
        made.out = Some(ca.clone());
    }
    (tls, ca, folder)
}

impl Secure {
    pub fn http(tls: TlsOptions, options: ServeOptions, http: HttpOptions) -> Self {
        let (tls, ca, _folder) = with_out(tls);
        Self { server: Running::http(ServeOptions { tls: Some(tls), ..options }, http), ca, _folder }
    }

    pub fn echo(tls: TlsOptions, options: ServeOptions) -> Self {
        let (tls, ca, _folder) = with_out(tls);
        Self { server: Running::echo(ServeOptions { tls: Some(tls), ..options }, EchoOptions::default()), ca, _folder }
    }

    pub fn default_http() -> Self {
        Self::http(TlsOptions::default(), ServeOptions::default(), HttpOptions::default())
    }

    pub fn tcp(&self) -> TcpStream {
        let tcp = TcpStream::connect(self.server.addrs[0]).unwrap();
        tcp.set_read_timeout(Some(HANG_GUARD)).unwrap();
        tcp.set_write_timeout(Some(HANG_GUARD)).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::new(config(&self.ca, rustls::ALL_VERSIONS))
    }

    pub fn connect(&self, config: &Arc<ClientConfig>) -> Client<TlsStream> {
        Client { stream: std::io::BufReader::new(over(self.tcp(), config)) }
    }

    /// `https://` and the address.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.server.addrs[0])
    }

    pub fn ca(&self) -> &str {
        self.ca.to_str().unwrap()
    }
}

/// TLS over `stream`, to 127.0.0.1.
pub fn over<S: Read + Write>(stream: S, config: &Arc<ClientConfig>) -> TlsStream<S> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream)
}

pub fn config(ca: &Path, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    config_as(ca, versions, None)
}

/// A client that trusts `ca`, and says who it is if it can.
pub fn config_as(
    ca: &Path,
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
    }
}

/// The same client, resuming as told.
pub fn resuming(mut config: ClientConfig, how: Tls12Resumption) -> Arc<ClientConfig> {
    config.resumption = Resumption::in_memory_sessions(16).tls12_resumption(how);
    Arc::new(config)
}

/// An authority, and what it gives out.
pub struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    /// A certificate for `name`, and its key.
    pub fn issue(&self, name: &str) -> (rcgen::Certificate, rcgen::KeyPair) {
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    pub fn identity(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let (certificate, key) = self.issue("client.example");
        (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }
}

/// A stream that passes at most `size` bytes at a time, each in a segment of its own.
pub struct Pieces {
    pub stream: TcpStream,
    pub size: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(self.size);
        self.stream.read(&mut buffer[..n])
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(&bytes[..bytes.len().min(self.size)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}
