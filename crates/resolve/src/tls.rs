//! What TLS offers, whom it trusts, who it says we are. Files are read here and kept in memory; the plan has their names
//! and digests.
//!
//! Left open, everything is as most clients have it: both versions, the library's suites, hybrid key exchange first,
//! the machine's authorities, resumption. A protocol that has a name in ALPN offers that one.

use crate::Choice;
use crate::defaults::PEM_BYTES_MAX;
use crate::host::Host;
use crate::origin::Asked;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::words;
use crate::workload::http::hex;
use crate::workload::{Protocol, tls_schemes};
use model::Scenario;
use model::tls::{Identity, TlsAsked, TlsError, TlsPlan, TlsVersion, Trusted, Verify};
use sha2::Digest as _;
use std::path::Path;

/// Names that may be offered by ALPN are of 1 to 255 bytes (RFC 7301 §3.1).
const ALPN_BYTES_MAX: usize = 255;

/// Refuses fields that would be without effect: TLS's own on a plain URL, those of requests where none is sent.
pub(super) fn refuse(scenario: &Scenario, url: &Asked) -> Result<(), ResolveError> {
    let TlsAsked {
        insecure,
        ca,
        certificate,
        key,
        versions,
        ciphers,
        groups,
        alpn,
        server_name,
        resume,
        handshake_only,
    } = &scenario.tls;
    let fields = [
        (Field::Insecure, *insecure),
        (Field::Ca, ca.is_some()),
        (Field::Cert, certificate.is_some()),
        (Field::Key, key.is_some()),
        (Field::TlsVersion, !versions.is_empty()),
        (Field::Ciphers, !ciphers.is_empty()),
        (Field::Groups, !groups.is_empty()),
        (Field::Alpn, !alpn.is_empty()),
        (Field::Sni, server_name.is_some()),
        (Field::Resume, resume.is_some()),
        (Field::HandshakeOnly, *handshake_only),
    ];
    if let (false, Some((field, _))) = (url.parsed.has_tls(), fields.iter().find(|(_, is_set)| *is_set)) {
        return Err(ResolveError::OtherProtocol {
            what: (*field).into(),
            for_protocol: tls_schemes(),
            url: url.text.clone(),
        });
    }
    if !*handshake_only {
        return Ok(());
    }
    let of_connections = [
        (Field::Pipeline, scenario.pipeline.is_some()),
        (Field::RequestsPerConnection, scenario.requests_per_connection.is_some()),
    ];
    let of_connections = || of_connections.iter().find(|(_, is_set)| *is_set).map(|(field, _)| *field);
    match url.parsed.protocol.of_requests(scenario).or_else(of_connections) {
        None => Ok(()),
        Some(field) => Err(ResolveError::Conflict {
            what: field.into(),
            with: Field::HandshakeOnly.into(),
            instead: "no request is sent, leave one of them out".into(),
        }),
    }
}

/// Builds the plan's TLS.
pub(super) fn build(
    asked: &TlsAsked,
    protocol: &dyn Protocol,
    names: Vec<String>,
    host: &dyn Host,
    choices: &mut Vec<Choice>,
) -> Result<TlsPlan, ResolveError> {
    let mut versions = versions(&asked.versions)?;
    let library = host.tls();
    let ciphers = if asked.ciphers.is_empty() {
        (library.default_ciphers)(&versions)
    } else {
        let named = words(&asked.ciphers, &[',', ':'])
            .map(|text| (library.cipher)(text).map_err(of_field(Field::Ciphers)))
            .collect::<Result<Vec<_>, _>>()?;
        // A version none of whose suites is wanted is not offered.
        versions.retain(|version| named.iter().any(|(_, of)| of == version));
        let wanted: Vec<String> =
            named.into_iter().filter(|(_, version)| versions.contains(version)).map(|(name, _)| name).collect();
        if wanted.is_empty() {
            let expected = format!("cipher suites of the TLS versions asked for ({})", asked.versions.join(", "));
            return Err(ResolveError::bad_value(Field::Ciphers, expected, asked.ciphers.join(",")));
        }
        wanted
    };
    let groups = if asked.groups.is_empty() {
        (library.default_groups)()
    } else {
        words(&asked.groups, &[',', ':'])
            .map(|text| (library.group)(text).map_err(of_field(Field::Groups)))
            .collect::<Result<Vec<_>, _>>()?
    };
    let plan = TlsPlan {
        server_names: self::names(asked, names),
        versions,
        ciphers,
        groups,
        alpn: alpn(&asked.alpn, protocol)?,
        verify: verify(asked, host, choices)?,
        identity: identity(asked, host)?,
        resume: asked.resume.unwrap_or(true),
        handshake_only: asked.handshake_only,
    };
    (library.check)(&plan).map_err(|source| {
        let field = match &source {
            TlsError::ServerName { .. } if asked.server_name.is_some() => Field::Sni,
            TlsError::ServerName { .. } => Field::Url,
            TlsError::Certificates { .. } | TlsError::Identity { .. } => Field::Cert,
            TlsError::Key { .. } => Field::Key,
            TlsError::Roots { .. } => Field::Ca,
            _ => Field::Ciphers,
        };
        ResolveError::Tls { field, source }
    })?;
    Ok(plan)
}

/// The name asked for, whatever the URLs say, or theirs.
pub(super) fn names(asked: &TlsAsked, of_urls: Vec<String>) -> Vec<String> {
    match &asked.server_name {
        Some(name) => vec![name.clone(); of_urls.len()],
        None => of_urls,
    }
}

fn of_field(field: Field) -> impl Fn(TlsError) -> ResolveError {
    move |source| ResolveError::Tls { field, source }
}

fn words<'a>(texts: &'a [String], separators: &'a [char]) -> impl Iterator<Item = &'a str> {
    texts.iter().flat_map(move |text| text.split(separators)).map(str::trim)
}

/// `1.2`, `1.3`, or from one to the other.
fn versions(texts: &[String]) -> Result<Vec<TlsVersion>, ResolveError> {
    const ALL: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
    if texts.is_empty() {
        return Ok(ALL.to_vec());
    }
    let mut wanted = Vec::new();
    for text in words(texts, &[',']) {
        let one = |text: &str| ALL.into_iter().find(|version| version.name() == text);
        let (low, high) = text.split_once("..").or_else(|| text.split_once('-')).unwrap_or((text, text));
        match (one(low), one(high)) {
            (Some(low), Some(high)) if low <= high => {
                wanted.extend(ALL.into_iter().filter(|v| (low..=high).contains(v)))
            }
            _ => return Err(ResolveError::bad_value(Field::TlsVersion, "1.2, 1.3 or 1.2..1.3", text)),
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

fn alpn(texts: &[String], protocol: &dyn Protocol) -> Result<Vec<String>, ResolveError> {
    match texts {
        [] => Ok(protocol.alpn().iter().map(|name| (*name).to_owned()).collect()),
        [none] if none == "none" => Ok(Vec::new()),
        texts => words(texts, &[','])
            .map(|name| match name.len() {
                1..=ALPN_BYTES_MAX => Ok(name.to_owned()),
                _ => {
                    Err(ResolveError::bad_value(Field::Alpn, "names of 1 to 255 bytes such as http/1.1, or none", name))
                }
            })
            .collect(),
    }
}

fn verify(asked: &TlsAsked, host: &dyn Host, choices: &mut Vec<Choice>) -> Result<Verify, ResolveError> {
    match (&asked.ca, asked.insecure) {
        (Some(_), true) => Err(ResolveError::Conflict {
            what: Field::Insecure.into(),
            with: Field::Ca.into(),
            instead: "leave one of them out, nothing is verified with the first".into(),
        }),
        (None, true) => Ok(Verify::Off),
        (Some(path), false) => {
            let der = (host.tls().certificates)(&read(Field::Ca, path, host)?).map_err(of_field(Field::Ca))?;
            Ok(Verify::File(trusted(path.display().to_string(), der)))
        }
        (None, false) => {
            let (der, from) = host.certificate_authorities().map_err(|why| ResolveError::NoAuthorities { why })?;
            choices.push(Choice::new("trust", format!("{} certificate authorities", der.len()), &from));
            Ok(Verify::System(trusted(from, der)))
        }
    }
}

fn trusted(from: String, der: Vec<Vec<u8>>) -> Trusted {
    let mut digest = sha2::Sha256::new();
    der.iter().for_each(|certificate| digest.update(certificate));
    Trusted { from, certificates: der.len() as u64, sha256: hex(&digest.finalize()), der }
}

/// `--cert` and `--key`; without the latter both are in one file, as curl has it.
fn identity(asked: &TlsAsked, host: &dyn Host) -> Result<Option<Identity>, ResolveError> {
    let Some(certificate) = &asked.certificate else {
        return match &asked.key {
            None => Ok(None),
            Some(_) => Err(ResolveError::Conflict {
                what: Field::Key.into(),
                with: "no certificate".into(),
                instead: words!["name its certificate with ", Field::Cert],
            }),
        };
    };
    let key = asked.key.as_ref().unwrap_or(certificate);
    let certificate_pem = read(Field::Cert, certificate, host)?;
    Ok(Some(Identity {
        certificate_file: certificate.display().to_string(),
        certificate_sha256: hex(&sha2::Sha256::digest(&certificate_pem)),
        key_file: key.display().to_string(),
        key_pem: read(Field::Key, key, host)?.into(),
        certificate_pem: certificate_pem.into(),
    }))
}

fn read(field: Field, path: &Path, host: &dyn Host) -> Result<Vec<u8>, ResolveError> {
    host.read_file(path, PEM_BYTES_MAX).map_err(|source| ResolveError::of_file(field, path, PEM_BYTES_MAX, source))
}
