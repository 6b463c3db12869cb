//! What becomes of a request after an attempt at it failed: a policy that fits the load, or why none does.

use crate::{Field, ResolveError, Words};
use model::Scenario;
use model::plan::{OnError, Workload};

/// The policy that was asked for, with its budget.
pub(crate) fn policy(scenario: &Scenario, workload: &Workload) -> Result<OnError, ResolveError> {
    let policy = scenario.on_error.unwrap_or_default();
    let conflict = |with: Words, instead: &str| ResolveError::Conflict {
        what: Field::OnError.into(),
        with,
        instead: instead.into(),
    };
    if !policy.is_fail_fast() && scenario.tls.handshake_only {
        return Err(conflict(Field::HandshakeOnly.into(), "a handshake is tried once, leave one of them out"));
    }
    if let Workload::Http1(http) = workload
        && http.sequence
        && !policy.is_fail_fast()
    {
        let instead =
            "what a later request takes of an earlier one's reply would be of another attempt, leave one of them out";
        return Err(conflict("a sequence of requests".into(), instead));
    }
    match (policy, scenario.retry_budget) {
        (policy, None) => Ok(policy),
        (OnError::Retry { times, backoff_ns, jitter, .. }, budget) => {
            Ok(OnError::Retry { times, backoff_ns, jitter, budget })
        }
        (other, Some(_)) => Err(ResolveError::Conflict {
            what: Field::RetryBudget.into(),
            with: Words::from((Field::OnError, &*other.to_string())),
            instead: "only retries have a budget, leave it out or ask for retry:N:BACKOFF".into(),
        }),
    }
}
