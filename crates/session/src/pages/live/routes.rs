//! What is answered: the page, what it shows as it comes (server-sent events), the report at the end, orders.

use super::{Order, Shared, Showing, VIEWERS_MAX};
use crate::pages::access::Access;
use crate::pages::answers::{html, may_order, sentence};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
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

/// A stream that has nothing new says that it is there so often.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// The most that the planned rate may be multiplied by.
const RATE_FACTOR_MAX: f64 = 1000.0;

type Page = State<Arc<Shared>>;

/// All of them.
pub fn routes(shared: Arc<Shared>, access: Arc<Access>) -> Router {
    let orders = post(move |page, headers, body| order(access, page, headers, body));
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/report", get(report))
        .route("/order", orders)
        .with_state(shared)
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
        let full = format!("{VIEWERS_MAX} look already: close a page of this run");
        return sentence(StatusCode::SERVICE_UNAVAILABLE, &full);
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

async fn order(access: Arc<Access>, State(shared): Page, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refused) = may_order(&access, &headers) {
        return refused.into_response();
    }
    let order = match serde_json::from_slice(&body) {
        Ok(Asked::Stop) => Order::Stop,
        Ok(Asked::RateFactor(_)) if !shared.has_rate => {
            let text = "this run has no rate to change: only an open pace (--rate) has";
            return sentence(StatusCode::CONFLICT, text);
        }
        Ok(Asked::RateFactor(factor)) if factor.is_finite() && factor > 0.0 && factor <= RATE_FACTOR_MAX => {
            Order::Rate(factor)
        }
        Ok(Asked::RateFactor(factor)) => {
            let text = format!("expected a factor above 0 and up to {RATE_FACTOR_MAX}, got {factor}");
            return sentence(StatusCode::BAD_REQUEST, &text);
        }
        Err(error) => {
            let text = format!("expected \"stop\" or {{\"rate-factor\": 1.5}}, but {error}");
            return sentence(StatusCode::BAD_REQUEST, &text);
        }
    };
    match shared.orders.try_send(order) {
        Ok(()) => (StatusCode::ACCEPTED, "taken\n").into_response(),
        Err(_) => sentence(StatusCode::TOO_MANY_REQUESTS, "orders given before are not followed yet: wait a second"),
    }
}
