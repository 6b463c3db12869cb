//! Seals what is secret in a plan to those who share a token: agents and controller. NATS, its disks and whoever else may read there
//! see that there is something, and not what.
//!
//! AES-256-GCM under a key made of the token and the run (HKDF-SHA256, RFC 5869), a random nonce before each sealed text. What it is
//! (a plan, part of a file) is sealed with it, so that one cannot stand for another. Who opens it also knows that it comes from
//! somebody with the token.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use remote::Token;

/// What the key is for.
const SALT: &[u8] = b"plimsoll agents 1";

/// Seals and opens for one run.
pub struct Seal(RandomizedNonceKey);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

impl Seal {
    /// Of a token, for a run; `None`: the cryptography fails, which it has no reason to.
    pub fn new(token: &Token, run: &str) -> Option<Self> {
        let extracted = Salt::new(HKDF_SHA256, SALT).extract(token.text().as_bytes());
        let mut key = [0; 32];
        extracted.expand(&[run.as_bytes()], Bytes32).ok()?.fill(&mut key).ok()?;
        RandomizedNonceKey::new(&AES_256_GCM, &key).ok().map(Seal)
    }

    /// Seals bytes that are `what`.
    pub fn seal(&self, what: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = bytes.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(what.as_bytes()), &mut sealed).ok()?;
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        Some(whole)
    }

    /// Opens what was sealed as `what`; `None`: by another token, for another run, as something else, or changed since.
    pub fn open(&self, what: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let mut text = text.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = self.0.open_in_place(nonce, Aad::from(what.as_bytes()), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_token_opens_it_and_only_as_what_it_was() {
        let token = Token::parse("0123456789abcdef0123456789abcdef").unwrap();
        let other = Token::parse("fedcba9876543210fedcba9876543210").unwrap();
        let seal = Seal::new(&token, "r1").unwrap();
        let sealed = seal.seal("plan", b"open sesame").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"sesame"));
        assert_eq!(Seal::new(&token, "r1").unwrap().open("plan", &sealed).unwrap(), b"open sesame");
        assert_eq!(seal.open("file", &sealed), None);
        assert_eq!(Seal::new(&token, "r2").unwrap().open("plan", &sealed), None);
        assert_eq!(Seal::new(&other, "r1").unwrap().open("plan", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open("plan", &changed), None, "{at}");
            assert_eq!(seal.open("plan", &sealed[..at]), None, "{at}");
        }
        assert_ne!(seal.seal("plan", b"x"), seal.seal("plan", b"x"), "no nonce is used twice");
    }
}
