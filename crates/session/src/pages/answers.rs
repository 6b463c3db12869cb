//! What all pages answer alike: to whom, with which headers, what to orders.

use super::access::{Access, Refused};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// An order takes no more bytes.
const ORDER_BYTES_MAX: usize = 4096;

/// Routes that answer only whoever may look.
pub fn to_the_admitted(routes: Router, access: &Arc<Access>) -> Router {
    routes.layer(DefaultBodyLimit::max(ORDER_BYTES_MAX)).layer(from_fn_with_state(Arc::clone(access), admitted))
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        sentence(StatusCode::FORBIDDEN, &self.to_string())
    }
}

/// A sentence.
pub fn sentence(status: StatusCode, text: &str) -> Response {
    (status, format!("plimsoll: {text}\n")).into_response()
}

/// A page.
pub fn html(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body.into()).into_response()
}

/// Whether an order may be given.
///
/// # Errors
/// Why not.
pub fn may_order(access: &Access, headers: &HeaderMap) -> Result<(), Refused> {
    access.may_order(text(headers, &header::HOST), text(headers, &header::ORIGIN))
}

/// Who may not look gets a sentence; every answer says that it is not to be kept, framed or guessed at.
async fn admitted(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let may = access.may_look(text(headers, &header::HOST), text(headers, &header::COOKIE));
    let mut response = match (may, token(request.uri())) {
        // The address that was printed: the token goes into a cookie, and out of the address.
        (Ok(()) | Err(Refused::Token), Some(given)) if request.uri().path() == "/" => match access.set_cookie(given) {
            Ok(cookie) => {
                let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
                (StatusCode::SEE_OTHER, headers).into_response()
            }
            Err(refused) => refused.into_response(),
        },
        (Ok(()), _) => next.run(request).await,
        (Err(refused), _) => refused.into_response(),
    };
    let said = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    response.headers_mut().extend(said.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn token(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}
