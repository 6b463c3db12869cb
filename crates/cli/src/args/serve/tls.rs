//! Arguments of `serve … --tls`: which certificate, which versions, whom to let in.

use crate::args::values;
use crate::exit::Failure;
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use servers::tls::{Certificate, KeyKind, MadeCertificate, TlsOptions, TlsVersion};
use std::path::PathBuf;

/// How the server speaks TLS, if it does.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Speak TLS, with a certificate made on the spot
    #[arg(long, env = "PLIMSOLL_TLS", value_parser = BoolishValueParser::new())]
    pub tls: bool,
    /// Kind of key to make: rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or ed25519 [default: p-256]
    #[arg(long, value_name = "KIND", env = "PLIMSOLL_TLS_KEY", value_parser = key_kind)]
    tls_key: Option<KeyKind>,
    /// Make the certificate for this DNS name or address; may be repeated [default: localhost, 127.0.0.1, ::1 and the addresses listened on]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_TLS_NAME")]
    tls_name: Vec<String>,
    /// Make a certificate that ended yesterday
    #[arg(long, env = "PLIMSOLL_TLS_EXPIRED", value_parser = BoolishValueParser::new())]
    tls_expired: bool,
    /// Write the certificate made to this file (PEM), for clients to verify it with [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_CA_OUT")]
    tls_ca_out: Option<PathBuf>,
    /// Show the certificate chain of this file (PEM) instead of making one [default: one is made]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM) [default: none]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_KEY_FILE")]
    tls_key_file: Option<PathBuf>,
    /// Speak this version of TLS only [default: 1.2 and 1.3]
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_TLS_VERSION", value_parser = tls_version())]
    tls_version: Option<TlsVersion>,
    /// Let clients resume sessions, by ticket or session id [default: on]
    #[arg(long, value_name = "on|off", env = "PLIMSOLL_TLS_RESUME", value_parser = values::on_off)]
    tls_resume: Option<bool>,
    /// Let in only clients with a certificate from an authority of this file (PEM) [default: everybody]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// How the server speaks TLS; `None` if it does not.
    pub fn options(&self) -> Result<Option<TlsOptions>, Failure> {
        let made = [
            ("--tls-key", self.tls_key.is_some()),
            ("--tls-name", !self.tls_name.is_empty()),
            ("--tls-expired", self.tls_expired),
            ("--tls-ca-out", self.tls_ca_out.is_some()),
        ];
        let others = [
            ("--tls-cert", self.tls_cert.is_some()),
            ("--tls-key-file", self.tls_key_file.is_some()),
            ("--tls-version", self.tls_version.is_some()),
            ("--tls-resume", self.tls_resume.is_some()),
            ("--tls-client-ca", self.tls_client_ca.is_some()),
        ];
        if !self.tls {
            return match made.iter().chain(&others).find(|(_, given)| *given) {
                Some((flag, _)) => Err(Failure::usage(format!(
                    "expected --tls with {flag}, got {flag} alone: add --tls or leave it out"
                ))),
                None => Ok(None),
            };
        }
        let certificate = match (&self.tls_cert, &self.tls_key_file) {
            (None, None) => Certificate::Made(MadeCertificate {
                key: self.tls_key.unwrap_or_default(),
                names: self.tls_name.clone(),
                expired: self.tls_expired,
                out: self.tls_ca_out.clone(),
            }),
            (Some(chain), Some(key)) => {
                if let Some((flag, _)) = made.iter().find(|(_, given)| *given) {
                    return Err(Failure::usage(format!(
                        "{flag} cannot be used with --tls-cert: it is about a certificate that is made, leave one of them out"
                    )));
                }
                Certificate::Files { chain: chain.clone(), key: key.clone() }
            }
            (Some(_), None) => {
                return Err(Failure::usage("expected --tls-key-file with --tls-cert: name its private key"));
            }
            (None, Some(_)) => {
                return Err(Failure::usage(
                    "expected --tls-cert with --tls-key-file: name the key's certificate chain",
                ));
            }
        };
        Ok(Some(TlsOptions {
            certificate,
            version: self.tls_version,
            resume: self.tls_resume.unwrap_or(true),
            client_ca: self.tls_client_ca.clone(),
        }))
    }
}

fn key_kind(name: &str) -> Result<KeyKind, servers::tls::TlsError> {
    KeyKind::from_name(name)
}

fn tls_version() -> impl TypedValueParser<Value = TlsVersion> {
    PossibleValuesParser::new(["1.2", "1.3"])
        .map(|name| if name == "1.2" { TlsVersion::V1_2 } else { TlsVersion::V1_3 })
}
