//! The dearest of usual handshakes, each time: an RSA key of 4096 bits, and no session ever resumed.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::tls::{Certificate, KeyKind};

pub(super) const DEFECT: Defect = Defect {
    name: "tls-rsa-4096",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Handshakes],
    about: "the certificate made has an RSA key of 4096 bits, and no session is resumed (--tls; from the start on)",
    makes: "tls-handshake-bound: handshakes take the server's processor, so that new connections are far fewer than requests on kept ones",
    see: "openssl s_client -reconnect -tls1_2 -connect 127.0.0.1:PORT: New each time, never Reused; Server public key is 4096 bit",
    make: |setting| {
        setting.only_from_the_start()?;
        Ok(Box::new(TlsRsa4096))
    },
};

#[derive(Debug)]
struct TlsRsa4096;

impl Hook for TlsRsa4096 {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        let misused = |expected: &str, got: &str, next| ServeError::DefectMisused {
            defect: DEFECT.name,
            expected: expected.to_owned(),
            got: got.to_owned(),
            next,
        };
        let Some(tls) = &mut options.tls else {
            return Err(misused("--tls", "none", "it is about handshakes, add --tls"));
        };
        let Certificate::Made(made) = &mut tls.certificate else {
            return Err(misused(
                "a certificate that is made",
                "--tls-cert",
                "it makes its own key, leave --tls-cert out",
            ));
        };
        made.key = KeyKind::Rsa4096;
        tls.resume = false;
        Ok(())
    }
}
