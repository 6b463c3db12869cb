//! What is answered: the page, what it shows as it comes (server-sent events), the report at the end, orders.

use super::access::Refused;
use super::{Order, Shared, Showing, VIEWERS_MAX};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

/// An order takes no more bytes.
const ORDER_BYTES_MAX: usize = 1024;
/// A stream that has nothing new says that it is there so often.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// The most that the planned rate may be multiplied by.
const RATE_FACTOR_MAX: f64 = 1000.0;

type Page = State<Arc<Shared>>;

/// All of them.
pub fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/report", get(report))
        .route("/order", post(order))
        .layer(DefaultBodyLimit::max(ORDER_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&shared), admitted))
        .with_state(shared)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::FORBIDDEN, format!("plimsoll: {self}\n")).into_response()
    }
}

/// Who may not look gets a sentence; every answer says that it is not to be kept, framed or guessed at.
async fn admitted(State(shared): Page, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let may = shared.access.may_look(text(headers, &header::HOST), text(headers, &header::COOKIE));
    let mut response = match (may, token(request.uri())) {
        // The address that was printed: the token goes into a cookie, and out of the address.
        (Ok(()) | Err(Refused::Token), Some(given)) if request.uri().path() == "/" => {
            match shared.access.cookie(given) {
                Ok(cookie) => {
                    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
                    (StatusCode::SEE_OTHER, headers).into_response()
                }
                Err(refused) => refused.into_response(),
            }
        }
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

fn html(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body.into()).into_response()
}

async fn page(State(shared): Page) -> Response {
    match shared.report.get() {
        Some(report) => {
            shared.fetched.fetch_add(1, Ordering::Relaxed);
            html(report.clone())
        }
        None => html(shared.shell.clone()),
    }
}

async fn report(State(shared): Page) -> Response {
    if shared.report.get().is_none() {
        return (StatusCode::NOT_FOUND, "plimsoll: the run goes on; its report is here when it has ended\n")
            .into_response();
    }
    page(State(shared)).await
}

/// Counts a viewer for as long as it lives.
struct Viewer(Arc<Shared>);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn events(State(shared): Page) -> Response {
    if shared.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
        shared.viewers.fetch_sub(1, Ordering::Relaxed);
        let sentence = format!("plimsoll: {VIEWERS_MAX} look already: close a page of this run\n");
        return (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    }
    let viewer = Viewer(Arc::clone(&shared));
    let stream = WatchStream::new(shared.showing.subscribe()).map(move |showing| {
        // It goes with the stream.
        let _ = &viewer;
        let event = match showing {
            Showing::Nothing => Event::default().event("waiting").data("{}"),
            Showing::Frame(frame) => Event::default().event("frame").data(&*frame),
            Showing::Ended => Event::default().event("ended").data("{}"),
        };
        Ok::<_, Infallible>(event)
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Asked {
    Stop,
    RateFactor(f64),
}

async fn order(State(shared): Page, headers: HeaderMap, body: Bytes) -> Response {
    let may = shared.access.may_order(text(&headers, &header::HOST), text(&headers, &header::ORIGIN));
    if let Err(refused) = may {
        return refused.into_response();
    }
    let order = match serde_json::from_slice(&body) {
        Ok(Asked::Stop) => Order::Stop,
        Ok(Asked::RateFactor(factor)) if factor.is_finite() && factor > 0.0 && factor <= RATE_FACTOR_MAX => {
            Order::Rate(factor)
        }
        Ok(Asked::RateFactor(factor)) => {
            let sentence = format!("plimsoll: expected a factor above 0 and up to {RATE_FACTOR_MAX}, got {factor}\n");
            return (StatusCode::BAD_REQUEST, sentence).into_response();
        }
        Err(error) => {
            let sentence = format!("plimsoll: expected \"stop\" or {{\"rate-factor\": 1.5}}, but {error}\n");
            return (StatusCode::BAD_REQUEST, sentence).into_response();
        }
    };
    match shared.orders.try_send(order) {
        Ok(()) => (StatusCode::ACCEPTED, "taken\n").into_response(),
        Err(_) => {
            let sentence = "plimsoll: orders given before are not followed yet: wait a second\n";
            (StatusCode::TOO_MANY_REQUESTS, sentence).into_response()
        }
    }
}
