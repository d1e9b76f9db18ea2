//! When a program is started again. No clock: the caller passes durations.

use std::time::Duration;

use sandcrab_api::service::RestartCondition;

/// How an execution ended, for the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With exit code 0.
    Success,
    /// In any other way, or it could not be started.
    Failure,
    /// With the session that it belonged to.
    SessionEnded,
}

/// What follows the end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartDecision {
    /// The program is started again.
    Restart {
        /// The delay.
        after: Duration,
        /// Number of restarts in a row, with this one.
        in_a_row: u32,
    },
    /// The service is stopped.
    Stop,
    /// The service has failed.
    Fail,
}

/// A restart policy with all defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) condition: RestartCondition,
    /// Maximum number of restarts in a row.
    pub(super) max_restarts: u32,
    /// The first delay.
    pub(super) backoff: Duration,
    /// The longest delay.
    pub(super) max_backoff: Duration,
    /// Run time after which restarts are counted from 0 again.
    pub(super) reset_after: Duration,
    /// Whether a service that becomes unhealthy is ended.
    pub(super) on_unhealthy: bool,
}

impl Policy {
    /// The delay after this many restarts in a row.
    fn delay(&self, in_a_row: u32) -> Duration {
        let factor = 2_u32.checked_pow(in_a_row).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(factor).min(self.max_backoff)
    }

    /// Decides what follows an execution that ran for this time, after this many restarts in a row.
    pub(super) fn after_end(&self, outcome: Outcome, ran_for: Duration, in_a_row: u32) -> RestartDecision {
        let in_a_row = if ran_for >= self.reset_after { 0 } else { in_a_row };
        let no_restart =
            if outcome == Outcome::Failure { RestartDecision::Fail } else { RestartDecision::Stop };
        match (self.condition, outcome) {
            (_, Outcome::SessionEnded)
            | (RestartCondition::Never, _)
            | (RestartCondition::OnFailure, Outcome::Success) => no_restart,
            _ if in_a_row >= self.max_restarts => no_restart,
            _ => {
                RestartDecision::Restart { after: self.delay(in_a_row), in_a_row: in_a_row.saturating_add(1) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(condition: RestartCondition) -> Policy {
        Policy {
            condition,
            max_restarts: 5,
            backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            reset_after: Duration::from_secs(60),
            on_unhealthy: false,
        }
    }

    #[test]
    fn delays_double_up_to_the_longest_and_end_with_a_failure() {
        let policy = policy(RestartCondition::OnFailure);
        let mut in_a_row = 0;
        let mut delays = Vec::new();
        while let RestartDecision::Restart { after, in_a_row: next } =
            policy.after_end(Outcome::Failure, Duration::ZERO, in_a_row)
        {
            delays.push(after.as_millis());
            in_a_row = next;
        }
        assert_eq!(delays, [100, 200, 400, 800, 1000]);
        assert_eq!(policy.after_end(Outcome::Failure, Duration::ZERO, in_a_row), RestartDecision::Fail);
    }

    #[test]
    fn a_stable_run_resets_the_count() {
        let policy = policy(RestartCondition::OnFailure);
        let stable = policy.after_end(Outcome::Failure, Duration::from_secs(60), 5);
        assert_eq!(stable, RestartDecision::Restart { after: policy.backoff, in_a_row: 1 });
        let unstable = policy.after_end(Outcome::Failure, Duration::from_millis(59_999), 5);
        assert_eq!(unstable, RestartDecision::Fail);
    }

    #[test]
    fn any_number_of_restarts_is_bounded_in_delay() {
        let policy = Policy { max_restarts: u32::MAX, ..policy(RestartCondition::Always) };
        for exponent in 0..32 {
            let verdict = policy.after_end(Outcome::Failure, Duration::ZERO, 1 << exponent);
            let RestartDecision::Restart { after, in_a_row } = verdict else { panic!("{verdict:?}") };
            assert!(after <= policy.max_backoff);
            assert_eq!(in_a_row, (1 << exponent) + 1);
        }
    }

    #[test]
    fn conditions() {
        use Outcome::{Failure, SessionEnded, Success};
        use RestartCondition::{Always, Never, OnFailure};
        let after = |condition, outcome| policy(condition).after_end(outcome, Duration::ZERO, 0);
        let again = RestartDecision::Restart { after: Duration::from_millis(100), in_a_row: 1 };
        assert_eq!(
            [after(Never, Success), after(Never, Failure)],
            [RestartDecision::Stop, RestartDecision::Fail]
        );
        assert_eq!([after(OnFailure, Success), after(OnFailure, Failure)], [RestartDecision::Stop, again]);
        assert_eq!([after(Always, Success), after(Always, Failure)], [again, again]);
        for condition in [Never, OnFailure, Always] {
            assert_eq!(after(condition, SessionEnded), RestartDecision::Stop);
        }
    }
}
