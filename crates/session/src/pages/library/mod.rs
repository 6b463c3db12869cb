//! The recordings of a folder: a list of them, the page of one, two beside each other, one deleted.
//!
//! What is in the folder and how it is drawn is asked of a [`Library`], one request at a time and off the thread that answers.
//! What was recorded is its owner's alone, so the token is always needed.

mod routes;

use super::{PageError, Serving, Spec};
use crate::pages::access::Access;
use std::sync::Arc;

/// What a request comes to: a page, or why there is none, in a sentence.
pub type Answer = Result<Vec<u8>, String>;

/// Recordings, drawn.
pub trait Library: Send + Sync + 'static {
    /// The list of them.
    fn list(&self) -> Answer;
    /// The page of one.
    fn report(&self, id: &str) -> Answer;
    /// Two beside each other.
    fn compare(&self, a: &str, b: &str) -> Answer;
    /// Deletes one.
    ///
    /// # Errors
    /// Why it is still there.
    fn delete(&self, id: &str) -> Result<(), String>;
}

/// Serves them until it is dropped.
///
/// # Errors
/// [`PageError`].
pub fn serve(spec: &Spec, library: impl Library) -> Result<Serving, PageError> {
    let spec = Spec { takes_orders: true, ..spec.clone() };
    let library: Arc<dyn Library> = Arc::new(library);
    Serving::start(&spec, |access: &Arc<Access>| routes::routes(library, Arc::clone(access)))
}
