//! What TLS offers, whom it trusts, who it says we are. Files are read here and kept in memory; the plan has their names
//! and digests.
//!
//! Left open, everything is as most clients have it: both versions, the library's suites, hybrid key exchange first,
//! the machine's authorities, resumption. `http` offers the one protocol it speaks by ALPN.

use super::Choice;
use super::defaults::PEM_BYTES_MAX;
use super::error::ResolveError;
use super::host::Host;
use super::http::hex;
use super::url::Protocol;
use engine::tls::{TlsError, certificates, check, cipher_name, default_ciphers, default_groups, group_name};
use model::Scenario;
use model::tls::{Identity, TlsAsked, TlsPlan, TlsVersion, Trusted, Verify};
use sha2::Digest as _;
use std::path::Path;

/// Names that may be offered by ALPN are of 1 to 255 bytes (RFC 7301 §3.1).
const ALPN_BYTES_MAX: usize = 255;

/// Refuses flags that would be without effect: TLS's own on a plain URL, those of requests where none is sent.
pub(super) fn refuse(scenario: &Scenario, is_tls: bool, url: &str) -> Result<(), ResolveError> {
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
    let flags = [
        ("--insecure", *insecure),
        ("--ca", ca.is_some()),
        ("--cert", certificate.is_some()),
        ("--key", key.is_some()),
        ("--tls-version", !versions.is_empty()),
        ("--ciphers", !ciphers.is_empty()),
        ("--groups", !groups.is_empty()),
        ("--alpn", !alpn.is_empty()),
        ("--sni", server_name.is_some()),
        ("--resume", resume.is_some()),
        ("--handshake-only", *handshake_only),
    ];
    if let (false, Some((flag, _))) = (is_tls, flags.iter().find(|(_, is_set)| *is_set)) {
        return Err(ResolveError::OtherProtocol { flag, for_protocol: "https and echo+tls", url: url.to_owned() });
    }
    let of_requests = [
        ("-X", scenario.method.is_some()),
        ("-H", !scenario.headers.is_empty()),
        ("--body", scenario.body.is_some() || scenario.body_file.is_some()),
        ("-u", scenario.user.is_some()),
        ("--expect-status", !scenario.expect_status.is_empty()),
        ("--expect-body", scenario.expect_body.is_some()),
        ("--expect-body-sha256", scenario.expect_body_sha256.is_some()),
        ("--disable-keepalive", scenario.disable_keepalive),
        ("--max-head", scenario.head_bytes_max.is_some()),
        ("--size", scenario.sizes.is_some()),
        ("--content", scenario.content.is_some()),
        ("--pipeline", scenario.pipeline.is_some()),
        ("--requests-per-connection", scenario.requests_per_connection.is_some()),
    ];
    match of_requests.iter().find(|(_, is_set)| *handshake_only && *is_set) {
        None => Ok(()),
        Some((flag, _)) => Err(ResolveError::Conflict {
            flag,
            with: "--handshake-only".to_owned(),
            instead: "no request is sent, leave one of them out",
        }),
    }
}

/// Builds the plan's TLS.
pub(super) fn build(
    asked: &TlsAsked,
    protocol: Protocol,
    names: Vec<String>,
    host: &dyn Host,
    choices: &mut Vec<Choice>,
) -> Result<TlsPlan, ResolveError> {
    let mut versions = versions(&asked.versions)?;
    let ciphers = if asked.ciphers.is_empty() {
        default_ciphers(&versions)
    } else {
        let named = words(&asked.ciphers, &[',', ':'])
            .map(|text| cipher_name(text).map_err(of_flag("--ciphers")))
            .collect::<Result<Vec<_>, _>>()?;
        // A version none of whose suites is wanted is not offered.
        versions.retain(|version| named.iter().any(|(_, of)| of == version));
        let wanted: Vec<String> =
            named.into_iter().filter(|(_, version)| versions.contains(version)).map(|(name, _)| name).collect();
        if wanted.is_empty() {
            let expected = format!("cipher suites of the TLS versions asked for ({})", asked.versions.join(", "));
            return Err(ResolveError::bad_value("--ciphers", expected, asked.ciphers.join(",")));
        }
        wanted
    };
    let groups = if asked.groups.is_empty() {
        default_groups()
    } else {
        words(&asked.groups, &[',', ':'])
            .map(|text| group_name(text).map_err(of_flag("--groups")))
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
    check(&plan).map_err(|source| {
        let flag = match &source {
            TlsError::ServerName { .. } if asked.server_name.is_some() => "--sni",
            TlsError::ServerName { .. } => "URL",
            TlsError::Certificates { .. } | TlsError::Identity { .. } => "--cert",
            TlsError::Key { .. } => "--key",
            TlsError::Roots { .. } => "--ca",
            _ => "--ciphers",
        };
        ResolveError::Tls { flag, source }
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

fn of_flag(flag: &'static str) -> impl Fn(TlsError) -> ResolveError {
    move |source| ResolveError::Tls { flag, source }
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
            _ => return Err(ResolveError::bad_value("--tls-version", "1.2, 1.3 or 1.2..1.3", text)),
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

fn alpn(texts: &[String], protocol: Protocol) -> Result<Vec<String>, ResolveError> {
    match texts {
        [] if protocol == Protocol::Http => Ok(vec!["http/1.1".to_owned()]),
        [] => Ok(Vec::new()),
        [none] if none == "none" => Ok(Vec::new()),
        texts => words(texts, &[','])
            .map(|name| match name.len() {
                1..=ALPN_BYTES_MAX => Ok(name.to_owned()),
                _ => Err(ResolveError::bad_value("--alpn", "names of 1 to 255 bytes such as http/1.1, or none", name)),
            })
            .collect(),
    }
}

fn verify(asked: &TlsAsked, host: &dyn Host, choices: &mut Vec<Choice>) -> Result<Verify, ResolveError> {
    match (&asked.ca, asked.insecure) {
        (Some(_), true) => Err(ResolveError::Conflict {
            flag: "--insecure",
            with: "--ca".to_owned(),
            instead: "leave one of them out, nothing is verified with the first",
        }),
        (None, true) => Ok(Verify::Off),
        (Some(path), false) => {
            let der = certificates(&read("--ca", path, host)?).map_err(of_flag("--ca"))?;
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
                flag: "--key",
                with: "no certificate".to_owned(),
                instead: "name its certificate with --cert",
            }),
        };
    };
    let key = asked.key.as_ref().unwrap_or(certificate);
    let certificate_pem = read("--cert", certificate, host)?;
    Ok(Some(Identity {
        certificate_file: certificate.display().to_string(),
        certificate_sha256: hex(&sha2::Sha256::digest(&certificate_pem)),
        key_file: key.display().to_string(),
        key_pem: read("--key", key, host)?,
        certificate_pem,
    }))
}

fn read(flag: &'static str, path: &Path, host: &dyn Host) -> Result<Vec<u8>, ResolveError> {
    let bytes = host.read_file(path, PEM_BYTES_MAX).map_err(|source| ResolveError::CannotRead {
        flag,
        path: path.to_owned(),
        source,
    })?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(ResolveError::TooMuch {
            what: flag,
            most: PEM_BYTES_MAX,
            got: bytes.len() as u64,
            instead: "give a file of certificates or a key in PEM",
        });
    }
    Ok(bytes)
}
