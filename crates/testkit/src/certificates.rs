//! Certificates made on the spot: an authority of a test's own, and what it signs, good or bad as the test wants.

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, Error, IsCa, KeyPair};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// One with a name that no other of this process has: of two with one name the wrong one could be tried.
    ///
    /// # Errors
    /// Where no key can be made.
    pub fn new() -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {} of a test", NUMBER.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Its own certificate.
    pub fn certificate(&self) -> &Certificate {
        self.issuer.as_ref()
    }

    /// A certificate for names and addresses, and its key (P-256); `change` makes it what a test needs.
    ///
    /// # Errors
    /// Where a name is none, or no key can be made.
    pub fn sign(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<(Certificate, KeyPair), Error> {
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        change(&mut params);
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

/// Writes a certificate and its key as `NAME.pem` and `NAME.key` into a folder; their paths.
///
/// # Errors
/// As `std::fs::write`.
pub fn write(folder: &Path, name: &str, certificate: &Certificate, key: &KeyPair) -> io::Result<(PathBuf, PathBuf)> {
    let (pem, private) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&pem, certificate.pem())?;
    std::fs::write(&private, key.serialize_pem())?;
    Ok((pem, private))
}
