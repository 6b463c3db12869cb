//! What is answered of a folder of recordings.

use super::{Answer, Library};
use crate::pages::access::Access;
use crate::pages::answers::{html, may_order, sentence};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::Mutex;

#[derive(Clone)]
struct Shared {
    library: Arc<dyn Library>,
    access: Arc<Access>,
    /// One request at a time is worked on: each may take all of a large recording into memory.
    turn: Arc<Mutex<()>>,
}

/// All of them.
pub fn routes(library: Arc<dyn Library>, access: Arc<Access>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/run/{id}", get(report))
        .route("/compare", get(compare))
        .route("/delete", post(delete))
        .with_state(Shared { library, access, turn: Arc::default() })
}

async fn worked<T: Send + 'static>(
    shared: Shared,
    work: impl FnOnce(&dyn Library) -> T + Send + 'static,
) -> Result<T, Response> {
    let _turn = shared.turn.lock().await;
    let done = tokio::task::spawn_blocking(move || work(&*shared.library)).await;
    done.map_err(|_| sentence(StatusCode::INTERNAL_SERVER_ERROR, "this page could not be made; please report this"))
}

fn shown(answer: Result<Answer, Response>) -> Response {
    match answer {
        Ok(Ok(page)) => html(page),
        Ok(Err(why)) => sentence(StatusCode::NOT_FOUND, &why),
        Err(response) => response,
    }
}

async fn list(State(shared): State<Shared>) -> Response {
    shown(worked(shared, |library| library.list()).await)
}

async fn report(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    shown(worked(shared, move |library| library.report(&id)).await)
}

async fn compare(State(shared): State<Shared>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let ids: Vec<String> = query.into_iter().filter(|(name, _)| name == "run").map(|(_, id)| id).collect();
    let [a, b] = &ids[..] else {
        return sentence(StatusCode::BAD_REQUEST, "expected two runs, as /compare?run=ID&run=ID: tick two in the list");
    };
    let (a, b) = (a.clone(), b.clone());
    shown(worked(shared, move |library| library.compare(&a, &b)).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deleted {
    id: String,
}

async fn delete(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refused) = may_order(&shared.access, &headers) {
        return refused.into_response();
    }
    let Deleted { id } = match serde_json::from_slice(&body) {
        Ok(deleted) => deleted,
        Err(error) => {
            return sentence(StatusCode::BAD_REQUEST, &format!("expected {{\"id\": \"ID\"}}, but {error}"));
        }
    };
    match worked(shared, move |library| library.delete(&id)).await {
        Ok(Ok(())) => (StatusCode::OK, "deleted\n").into_response(),
        Ok(Err(why)) => sentence(StatusCode::CONFLICT, &why),
        Err(response) => response,
    }
}
