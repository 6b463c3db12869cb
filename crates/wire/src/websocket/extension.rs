//! Extensions as RFC 6455 §9.1 writes them, and what permessage-deflate (RFC 7692 §7.1) may be accepted with.

use super::Detail;
use super::deflate::WINDOW_BITS;

/// permessage-deflate as it is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeflateOffer {
    /// Asks the server to compress each message for itself.
    pub server_no_context_takeover: bool,
    /// Says that this is what the client does.
    pub client_no_context_takeover: bool,
    /// Asks the server for a window of at most 2^n bytes, 8 to 15.
    pub server_max_window_bits: Option<u8>,
    /// The client's own window, 8 to 15, and that the server may choose a smaller one.
    pub client_max_window_bits: Option<u8>,
}

/// permessage-deflate as it was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateAgreed {
    /// The server compresses each message for itself.
    pub server_no_context_takeover: bool,
    /// The client must.
    pub client_no_context_takeover: bool,
    /// The window of what the server sends, 2^n bytes.
    pub server_window_bits: u8,
    /// The window of what the client sends, 2^n bytes.
    pub client_window_bits: u8,
}

const NAME: &str = "permessage-deflate";

impl DeflateOffer {
    /// As a field's value.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(NAME.as_bytes());
        for (name, is_there) in [
            ("server_no_context_takeover", self.server_no_context_takeover),
            ("client_no_context_takeover", self.client_no_context_takeover),
        ] {
            if is_there {
                to.extend_from_slice(format!("; {name}").as_bytes());
            }
        }
        for (name, bits) in [
            ("server_max_window_bits", self.server_max_window_bits),
            ("client_max_window_bits", self.client_max_window_bits),
        ] {
            if let Some(bits) = bits {
                to.extend_from_slice(format!("; {name}={bits}").as_bytes());
            }
        }
    }

    /// The window that messages may be compressed with before an answer has come.
    pub fn client_window_bits(&self) -> u8 {
        self.client_max_window_bits.unwrap_or(*WINDOW_BITS.end())
    }

    fn accept(&self, parameters: &[Parameter<'_>]) -> Result<DeflateAgreed, Detail> {
        let (mut server_bits, mut client_bits) = (None, None);
        let (mut server_alone, mut client_alone) = (false, false);
        for (name, value) in parameters {
            let is_second = match (*name, value) {
                ("server_no_context_takeover", None) => std::mem::replace(&mut server_alone, true),
                ("client_no_context_takeover", None) => std::mem::replace(&mut client_alone, true),
                ("server_max_window_bits", Some(value)) => server_bits.replace(bits(value)?).is_some(),
                ("client_max_window_bits", Some(value)) => client_bits.replace(bits(value)?).is_some(),
                _ => return Err(Detail::DeflateParameter),
            };
            if is_second {
                return Err(Detail::DeflateParameter);
            }
        }
        if client_bits.is_some() && self.client_max_window_bits.is_none() {
            return Err(Detail::ClientBitsNotOffered);
        }
        let is_promised = (server_alone || !self.server_no_context_takeover)
            && (server_bits.is_some() || self.server_max_window_bits.is_none());
        if !is_promised {
            return Err(Detail::DeflateNotPromised);
        }
        let exceeds = |got: Option<u8>, offered: Option<u8>| got.zip(offered).is_some_and(|(got, most)| got > most);
        if exceeds(server_bits, self.server_max_window_bits) || exceeds(client_bits, self.client_max_window_bits) {
            return Err(Detail::BitsTooLarge);
        }
        if client_bits.is_some_and(|bits| bits < self.client_window_bits()) {
            return Err(Detail::ClientBitsTooSmall);
        }
        Ok(DeflateAgreed {
            server_no_context_takeover: server_alone,
            client_no_context_takeover: client_alone,
            server_window_bits: server_bits.unwrap_or(*WINDOW_BITS.end()),
            client_window_bits: client_bits.unwrap_or(*WINDOW_BITS.end()),
        })
    }
}

/// What the extensions of an answer come to, given what was offered; `values`: of all its fields of that name.
pub fn agree(offer: Option<&DeflateOffer>, values: &[&str]) -> Result<Option<DeflateAgreed>, Detail> {
    let mut agreed = None;
    for value in values {
        for (name, parameters) in parse(value).ok_or(Detail::ExtensionSyntax)? {
            let offer = offer.filter(|_| name == NAME && agreed.is_none()).ok_or(Detail::ExtensionNotOffered)?;
            agreed = Some(offer.accept(&parameters)?);
        }
    }
    Ok(agreed)
}

/// A parameter's name, and its value.
type Parameter<'a> = (&'a str, Option<String>);

/// 8 to 15, without anything else (RFC 7692 §7.1.2: no leading zeros).
fn bits(value: &str) -> Result<u8, Detail> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit()) && !value.starts_with('0');
    let bits = value.parse::<u8>().ok().filter(|bits| digits && WINDOW_BITS.contains(bits));
    bits.ok_or(Detail::DeflateParameter)
}

/// Extensions with their parameters; `None`: malformed.
fn parse(value: &str) -> Option<Vec<(&str, Vec<Parameter<'_>>)>> {
    let mut rest = Rest(value);
    let mut extensions = Vec::new();
    loop {
        let name = rest.token()?;
        let mut parameters = Vec::new();
        while rest.eat(b';') {
            let name = rest.token()?;
            let value = if rest.eat(b'=') { Some(rest.value()?) } else { None };
            parameters.push((name, value));
        }
        extensions.push((name, parameters));
        if !rest.eat(b',') {
            return rest.0.is_empty().then_some(extensions);
        }
    }
}

struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        self.0 = self.0.trim_matches([' ', '\t']);
        let is_there = self.0.as_bytes().first() == Some(&byte);
        if is_there {
            self.0 = &self.0[1..];
        }
        is_there
    }

    fn token(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_matches([' ', '\t']);
        let length = self.0.bytes().take_while(|byte| is_of_token(*byte)).count();
        let (token, rest) = self.0.split_at(length);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token, in quotes or not.
    fn value(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return self.token().map(str::to_owned);
        }
        let mut value = String::new();
        let mut bytes = self.0.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            let byte = match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return (!value.is_empty()).then_some(value);
                }
                b'\\' => bytes.next()?.1,
                byte => byte,
            };
            // What is in the quotes must be a token as well.
            if !is_of_token(byte) {
                return None;
            }
            value.push(char::from(byte));
        }
        None
    }
}

/// RFC 9110 §5.6.2.
pub fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: DeflateAgreed = DeflateAgreed {
        server_no_context_takeover: false,
        client_no_context_takeover: false,
        server_window_bits: 15,
        client_window_bits: 15,
    };

    #[test]
    fn what_was_agreed_on_is_read() {
        let offer = DeflateOffer { client_max_window_bits: Some(15), ..DeflateOffer::default() };
        for (value, agreed) in [
            ("permessage-deflate", PLAIN),
            (
                "permessage-deflate;server_no_context_takeover",
                DeflateAgreed { server_no_context_takeover: true, ..PLAIN },
            ),
            (
                "permessage-deflate ; client_no_context_takeover; server_max_window_bits=\"1\\0\"",
                DeflateAgreed { client_no_context_takeover: true, server_window_bits: 10, ..PLAIN },
            ),
            ("\tpermessage-deflate; client_max_window_bits=15 ", PLAIN),
        ] {
            assert_eq!(agree(Some(&offer), &[value]), Ok(Some(agreed)), "{value}");
        }
        assert_eq!(agree(Some(&offer), &[]), Ok(None));
        let mut written = Vec::new();
        let all = DeflateOffer {
            server_no_context_takeover: true,
            client_no_context_takeover: true,
            server_max_window_bits: Some(9),
            client_max_window_bits: Some(12),
        };
        all.write(&mut written);
        let value = String::from_utf8(written).unwrap();
        let agreed = DeflateAgreed {
            server_no_context_takeover: true,
            client_no_context_takeover: true,
            server_window_bits: 9,
            client_window_bits: 12,
        };
        assert_eq!(agree(Some(&all), &[&value]), Ok(Some(agreed)), "an offer may be accepted word for word");
    }

    #[test]
    fn what_must_not_be_agreed_on_is_refused() {
        let plain = DeflateOffer::default();
        let asks = DeflateOffer {
            server_no_context_takeover: true,
            server_max_window_bits: Some(10),
            client_max_window_bits: Some(12),
            ..plain
        };
        for (offer, values, detail) in [
            (None, &["permessage-deflate"][..], Detail::ExtensionNotOffered),
            (Some(plain), &["x-webkit-deflate-frame"], Detail::ExtensionNotOffered),
            (Some(plain), &["permessage-deflate, permessage-deflate"], Detail::ExtensionNotOffered),
            (Some(plain), &["permessage-deflate", "permessage-deflate"], Detail::ExtensionNotOffered),
            (Some(plain), &[""], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate;"], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate,"], Detail::ExtensionSyntax),
            (Some(plain), &["permessage deflate"], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate; server_max_window_bits=\"10"], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate; server_max_window_bits=\"\""], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate; server_max_window_bits=\"1 0\""], Detail::ExtensionSyntax),
            (Some(plain), &["permessage-deflate; unknown"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_max_window_bits"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_max_window_bits=7"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_max_window_bits=16"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_max_window_bits=010"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_max_window_bits=+9"], Detail::DeflateParameter),
            (Some(plain), &["permessage-deflate; server_no_context_takeover=1"], Detail::DeflateParameter),
            (
                Some(plain),
                &["permessage-deflate; server_no_context_takeover; server_no_context_takeover"],
                Detail::DeflateParameter,
            ),
            (
                Some(plain),
                &["permessage-deflate; server_max_window_bits=9; server_max_window_bits=9"],
                Detail::DeflateParameter,
            ),
            (Some(plain), &["permessage-deflate; client_max_window_bits=15"], Detail::ClientBitsNotOffered),
            (Some(asks), &["permessage-deflate; server_max_window_bits=10"], Detail::DeflateNotPromised),
            (Some(asks), &["permessage-deflate; server_no_context_takeover"], Detail::DeflateNotPromised),
            (
                Some(asks),
                &["permessage-deflate; server_no_context_takeover; server_max_window_bits=11"],
                Detail::BitsTooLarge,
            ),
            (
                Some(asks),
                &[
                    "permessage-deflate; server_no_context_takeover; server_max_window_bits=8; client_max_window_bits=13",
                ],
                Detail::BitsTooLarge,
            ),
            (
                Some(asks),
                &["permessage-deflate; server_no_context_takeover; server_max_window_bits=8; client_max_window_bits=9"],
                Detail::ClientBitsTooSmall,
            ),
        ] {
            assert_eq!(agree(offer.as_ref(), values), Err(detail), "{values:?}");
        }
    }
}
