//! Writes requests: once, before the load starts, so that sending one is handing out a range of bytes.
//!
//! Nothing is escaped or corrected: a byte that would break the framing is refused with where it stands, anything else
//! goes out as the user wrote it. Also draws requests by weight, in constant time (alias method, Vose 1991).

use crate::WireError;
use model::plan::HttpRequest;

/// Methods that always say how long their body is, even when it is empty (RFC 9110 section 8.6).
pub const METHODS_WITH_BODY: &[&str] = &["POST", "PUT", "PATCH"];

/// The bytes of a request. `index` is its place in the plan, for errors.
///
/// # Errors
/// Bytes that HTTP/1.1 forbids where they stand, an empty method, target or header name, a `Content-Length` that is
/// not the body's, a body whose bytes are missing, more than 4 GiB.
pub fn write(index: usize, request: &HttpRequest, keep_alive: bool) -> Result<Vec<u8>, WireError> {
    let body = request.body.bytes.expose();
    if request.body.length != body.len() as u64 {
        return Err(WireError::BodyMissing { request: index, expected: request.body.length, got: body.len() });
    }
    check(index, "method", request.method.as_bytes(), is_token)?;
    // RFC 9112 section 3.2: no whitespace in a target. Bytes beyond ASCII are sent as they are.
    check(index, "target", request.target.expose(), |b| b > b' ' && b != 0x7f)?;

    let mut out = Vec::with_capacity(256 + body.len());
    for part in [request.method.as_bytes(), b" ", request.target.expose(), b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    for (name, value) in &request.headers {
        check(index, "header name", name.as_bytes(), is_token)?;
        // An empty value is fine, so this is not `check`.
        let bytes = value.expose();
        if let Some(offset) = bytes.iter().position(|b| matches!(b, b'\r' | b'\n' | 0)) {
            let byte = bytes[offset];
            return Err(WireError::ForbiddenByte { request: index, part: format!("header {name}"), byte, offset });
        }
        if name.eq_ignore_ascii_case("content-length") && value.expose_text().trim().parse() != Ok(body.len()) {
            return Err(WireError::ContentLength { request: index, given: value.to_string(), actual: body.len() });
        }
        field(&mut out, name, bytes);
    }
    let has = |wanted: &str| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let states_length = !body.is_empty() || METHODS_WITH_BODY.contains(&request.method.as_str());
    // RFC 9112 section 6.2: never beside Transfer-Encoding; who sets that has chunked the body already.
    if states_length && !has("content-length") && !has("transfer-encoding") {
        field(&mut out, "Content-Length", body.len().to_string().as_bytes());
    }
    if !keep_alive && !has("connection") {
        field(&mut out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    if u32::try_from(out.len()).is_err() {
        return Err(WireError::RequestTooLarge { request: index, length: out.len() });
    }
    Ok(out)
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn check(request: usize, part: &'static str, bytes: &[u8], allowed: impl Fn(u8) -> bool) -> Result<(), WireError> {
    if bytes.is_empty() {
        return Err(WireError::Empty { request, part });
    }
    match bytes.iter().position(|b| !allowed(*b)) {
        Some(offset) => Err(WireError::ForbiddenByte { request, part: part.to_owned(), byte: bytes[offset], offset }),
        None => Ok(()),
    }
}

/// RFC 9110 section 5.6.2.
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Draws among requests by weight.
#[derive(Debug, Default)]
pub struct Draw {
    /// Indices of the requests in the plan.
    requests: Vec<u32>,
    /// For each: below which fraction (of 2^64) it is drawn itself, and which one is otherwise.
    alias: Vec<(u64, u32)>,
}

impl Draw {
    /// Draws for every origin, by its index. An origin without requests draws request 0; no connection is made for it.
    ///
    /// # Errors
    /// A weight that is negative or not finite; an origin all of whose weights are 0.
    pub fn by_origin(requests: &[HttpRequest]) -> Result<Vec<Draw>, WireError> {
        let origins = requests.iter().map(|r| usize::from(r.origin) + 1).max().unwrap_or(0);
        let mut groups: Vec<Vec<(u32, f64)>> = vec![Vec::new(); origins];
        for (index, request) in requests.iter().enumerate() {
            if !(request.weight >= 0.0 && request.weight.is_finite()) {
                let (target, weight) = (request.target.to_string(), request.weight);
                return Err(WireError::Weight { request: index, target, weight });
            }
            groups[usize::from(request.origin)].push((index as u32, request.weight));
        }
        let draw = |(origin, group): (usize, &Vec<(u32, f64)>)| match Draw::new(group) {
            Some(draw) => Ok(draw),
            None => Err(WireError::NoWeight { origin: origin as u16 }),
        };
        groups.iter().enumerate().map(draw).collect()
    }

    /// Draws among numbers by weight; `None` where there are some but no weight.
    pub(crate) fn new(group: &[(u32, f64)]) -> Option<Draw> {
        let drawable: Vec<_> = group.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
        if drawable.is_empty() {
            return group.is_empty().then(Draw::default);
        }
        // Divided by the largest first: the sum of finite weights need not be finite.
        let largest = drawable.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        let sum: f64 = drawable.iter().map(|(_, weight)| weight / largest).sum();
        let count = drawable.len();
        let mut scaled: Vec<f64> = drawable.iter().map(|(_, w)| w / largest / sum * count as f64).collect();
        let (mut small, mut large): (Vec<_>, Vec<_>) = (0..count).partition(|i| scaled[*i] < 1.0);
        let mut alias: Vec<(u64, u32)> = (0..count as u32).map(|i| (u64::MAX, i)).collect();
        while let (Some(below), Some(&above)) = (small.pop(), large.last()) {
            alias[below] = ((scaled[below] * 18_446_744_073_709_551_616.0) as u64, above as u32);
            scaled[above] -= 1.0 - scaled[below];
            if scaled[above] < 1.0 {
                large.pop();
                small.push(above);
            }
        }
        Some(Draw { requests: drawable.iter().map(|(index, _)| *index).collect(), alias })
    }

    /// Draws a request's index in the plan; `random` is uniform over all 64 bits.
    #[inline]
    pub fn next(&self, random: u64) -> u32 {
        if self.requests.len() <= 1 {
            return self.requests.first().copied().unwrap_or(0);
        }
        // The high half of the product is the column, the low half a fraction that is uniform within it.
        let product = u128::from(random) * self.requests.len() as u128;
        let (column, fraction) = ((product >> 64) as usize, product as u64);
        let (threshold, other) = self.alias[column];
        self.requests[if fraction <= threshold { column } else { other as usize }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::fixtures::get;
    use model::plan::Body;

    fn check_written(request: &HttpRequest, keep_alive: bool, expected: &str) {
        assert_eq!(String::from_utf8(write(0, request, keep_alive).unwrap()).unwrap(), expected);
    }

    fn with_body(method: &str, body: &[u8]) -> HttpRequest {
        let body = Body::new(body.to_vec(), String::new());
        HttpRequest { method: method.into(), body, ..get() }
    }

    fn with_header(name: &str, value: &str) -> HttpRequest {
        let mut request = with_body("POST", b"12345");
        request.headers.push((name.into(), value.into()));
        request
    }

    #[test]
    fn requests_are_written_as_asked() {
        check_written(&get(), true, "GET /x?y=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        check_written(&get(), false, "GET /x?y=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let head = "/x?y=1 HTTP/1.1\r\nHost: h\r\n";
        for method in ["POST", "PUT", "PATCH"] {
            let expected = format!("{method} {head}Content-Length: 0\r\n\r\n");
            check_written(&with_body(method, b""), true, &expected);
        }
        check_written(&with_body("DELETE", b""), true, &format!("DELETE {head}\r\n"));
        check_written(&with_body("GET", b"a\r\n\0"), true, &format!("GET {head}Content-Length: 4\r\n\r\na\r\n\0"));
        let kept = format!("POST {head}content-length: 5\r\n\r\n12345");
        check_written(&with_header("content-length", "5"), true, &kept);
        let chunked = format!("POST {head}Transfer-Encoding: chunked\r\n\r\n12345");
        check_written(&with_header("Transfer-Encoding", "chunked"), true, &chunked);
        let own = format!("POST {head}connection: keep-alive\r\nContent-Length: 5\r\n\r\n12345");
        check_written(&with_header("connection", "keep-alive"), false, &own);
        let empty = format!("POST {head}X-Empty: \r\nContent-Length: 5\r\n\r\n12345");
        check_written(&with_header("X-Empty", ""), true, &empty);
    }

    #[test]
    fn bytes_that_break_the_framing_are_refused() {
        let refuse = |request: HttpRequest, expected: &str| {
            let error = write(7, &request, true).unwrap_err().to_string();
            assert!(error.contains("request 7") && error.contains(expected), "{error}");
        };
        for bad in ["\r", "\n", "\0", " ", "\x7f"] {
            let byte = format!("{:#04x} at offset 1", bad.as_bytes()[0]);
            refuse(HttpRequest { method: format!("G{bad}T"), ..get() }, &format!("method has the byte {byte}"));
            refuse(HttpRequest { target: format!("/{bad}").into(), ..get() }, &format!("target has the byte {byte}"));
            refuse(with_header(&format!("X{bad}"), "1"), &format!("header name has the byte {byte}"));
        }
        refuse(with_header("X:", "1"), "header name has the byte 0x3a");
        for bad in ["\r", "\n", "\0"] {
            let byte = format!("{:#04x} at offset 2", bad.as_bytes()[0]);
            refuse(
                with_header("X", &format!("a {bad}b").replace("a ", "ab")),
                &format!("header X has the byte {byte}"),
            );
        }
        refuse(HttpRequest { method: String::new(), ..get() }, "method is empty");
        refuse(HttpRequest { target: model::Secret::default(), ..get() }, "target is empty");
        refuse(with_header("", "1"), "header name is empty");
        for wrong in ["4", "", "x", "-5", "5, 5"] {
            refuse(with_header("Content-Length", wrong), "the body has 5 bytes");
        }
        let mut stored = with_body("POST", b"12345");
        stored.body.bytes = model::Secret::default();
        refuse(stored, "should have 5 bytes, 0 are there");
    }

    fn mix(weights: &[(u16, f64)]) -> Vec<HttpRequest> {
        weights.iter().map(|(origin, weight)| HttpRequest { origin: *origin, weight: *weight, ..get() }).collect()
    }

    /// The share of each request over an even grid of randoms: exact to the grid.
    fn shares(draw: &Draw, requests: usize) -> Vec<f64> {
        const GRID: u64 = 1 << 16;
        let mut counts = vec![0u64; requests];
        for i in 0..GRID {
            counts[draw.next(i * (u64::MAX / GRID)) as usize] += 1;
        }
        counts.iter().map(|count| *count as f64 / GRID as f64).collect()
    }

    #[test]
    fn requests_are_drawn_by_weight_within_their_origin() {
        for weights in [
            vec![1.0],
            vec![1.0, 1.0, 1.0],
            vec![70.0, 20.0, 10.0],
            vec![0.0, 5.0, 0.0, 1.0],
            vec![1e-9, 1.0],
            vec![f64::MAX, f64::MAX, f64::MAX],
            (1..=1000).map(f64::from).collect(),
        ] {
            let largest = weights.iter().copied().fold(0.0, f64::max);
            let sum: f64 = weights.iter().map(|w| w / largest).sum();
            let requests = mix(&weights.iter().map(|w| (0, *w)).collect::<Vec<_>>());
            let draws = Draw::by_origin(&requests).unwrap();
            for (share, weight) in shares(&draws[0], weights.len()).iter().zip(&weights) {
                let expected = weight / largest / sum;
                // Each of at most a thousand columns is off by at most two points of the grid.
                assert!((share - expected).abs() < 2.0 * 2.0 / 65536.0 + 1e-3 * expected, "{share} {expected}");
                assert!(*weight > 0.0 || *share == 0.0, "a request of weight 0 was drawn");
            }
        }
        let draws = Draw::by_origin(&mix(&[(2, 1.0), (0, 1.0), (2, 3.0)])).unwrap();
        assert_eq!(shares(&draws[0], 3), [0.0, 1.0, 0.0]);
        assert_eq!(draws[1].next(u64::MAX), 0, "an origin without requests must not panic");
        let third = shares(&draws[2], 3);
        assert!((third[0] - 0.25).abs() < 1e-3 && third[1] == 0.0 && (third[2] - 0.75).abs() < 1e-3, "{third:?}");
        assert_eq!(draws[2].next(0), 0);
        assert_eq!(draws[2].next(u64::MAX), 2);
    }

    #[test]
    fn weights_that_are_no_shares_are_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let error = Draw::by_origin(&mix(&[(0, 1.0), (0, bad)])).unwrap_err();
            assert!(matches!(error, WireError::Weight { request: 1, .. }), "{error}");
        }
        let error = Draw::by_origin(&mix(&[(0, 1.0), (3, 0.0), (3, 0.0)])).unwrap_err();
        assert!(matches!(error, WireError::NoWeight { origin: 3 }), "{error}");
    }
}
