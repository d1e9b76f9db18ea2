//! [`Ending`]: ends what a call has started, if its caller is gone before it has the result.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use tokio::time::{Instant, sleep};

use crate::{Client, ClientError, KillOptions};

/// How long a start may still be on its way to the server, which does not know the id until it arrives.
const START_WINDOW: Duration = Duration::from_secs(2);
const FIRST_START_PAUSE: Duration = Duration::from_millis(50);

/// What a call starts, by the id that the client has chosen.
#[derive(Debug, Clone)]
pub(super) enum Started {
    /// A command or a process, and the time between SIGTERM and SIGKILL.
    Execution {
        id: String,
        grace: Option<Duration>,
    },
    Session(String),
    Terminal(String),
    Service(String),
}

/// Ends what a call has started when it is dropped, unless it was told to forget it. A future that is dropped before the
/// answer would otherwise leave something running whose id the caller does not know.
#[derive(Debug)]
pub(super) struct Ending {
    client: Client,
    started: Option<Started>,
    /// Whether this call has started it. If not, it may be something of another caller, which has the same id.
    is_own: bool,
}

impl Ending {
    /// To be created before the request is sent. With `None` there is nothing to end: the caller has chosen the id, and may
    /// have named something that existed before.
    pub(super) fn new(client: &Client, started: Option<Started>) -> Self {
        Self { client: client.clone(), started, is_own: true }
    }

    /// The same for something whose id the caller has chosen. It is not ended before [`Ending::confirm`].
    pub(super) fn unconfirmed(mut self) -> Self {
        self.is_own = false;
        self
    }

    /// The server has answered that this call has started it.
    pub(super) fn confirm(&mut self) {
        self.is_own = true;
    }

    /// What was started has ended, or belongs to the caller now.
    pub(super) fn forget(&mut self) {
        self.started = None;
    }

    /// Passes an answer on. If it does not tell whether something was started, it is ended.
    pub(super) fn answered<T>(mut self, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        self.note(&answer);
        answer
    }

    /// The same for something that belongs to the call also after the answer.
    pub(super) fn note<T>(&mut self, answer: &Result<T, ClientError>) {
        let may_run = match answer {
            Ok(_) => false,
            Err(error) => self.may_have_started(error),
        };
        if !may_run {
            self.forget();
        }
    }

    /// Whether something may run after an error, which is that of the last attempt: an earlier one may have arrived.
    fn may_have_started(&self, error: &ClientError) -> bool {
        match error {
            ClientError::ConnectionLost { .. } | ClientError::InvalidResponse { .. } => true,
            // A server that was never reached has started nothing.
            ClientError::Unreachable { .. } => self.client.may_repeat(error),
            // Any other refusal is final, and also the answer to an earlier attempt.
            ClientError::Api(_) => error.is_temporary(),
            ClientError::Address(_) | ClientError::Token | ClientError::Id(_) => false,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(started) = self.started.take().filter(|_| self.is_own) else { return };
        let client = self.client.clone();
        // Outside of a runtime no request can be sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The caller is gone, so it can neither wait for the end nor learn of a failure.
            runtime.spawn(async move { end(&client, &started).await });
        }
    }
}

async fn end(client: &Client, started: &Started) {
    let give_up_at = Instant::now() + START_WINDOW;
    let mut retry = client.retry();
    let mut pause = FIRST_START_PAUSE;
    loop {
        let ended = match started {
            Started::Execution { id, grace } => {
                client.kill(id, &KillOptions { signal: None, grace: *grace }).await.map(drop)
            }
            Started::Session(id) => client.delete_session(id).await.map(drop),
            Started::Terminal(id) => client.delete_terminal(id).await.map(drop),
            Started::Service(id) => client.delete_service(id, &KillOptions::default()).await.map(drop),
        };
        match ended {
            Ok(()) => return,
            Err(error) if is_unknown(&error) => {
                if Instant::now() >= give_up_at {
                    return;
                }
                sleep(pause).await;
                pause *= 2;
            }
            // The server may be restarting.
            Err(error) => match retry.failed(error) {
                Ok(()) => retry.pause().await,
                Err(_) => return,
            },
        }
    }
}

fn is_unknown(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(
            ErrorCode::ProcessNotFound
                | ErrorCode::SessionNotFound
                | ErrorCode::TerminalNotFound
                | ErrorCode::ServiceNotFound
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(client: &Client, error: ClientError) -> bool {
        let mut ending = Ending::new(client, Some(Started::Session("s".into())));
        ending.note::<()>(&Err(error));
        ending.started.is_some()
    }

    /// The last attempt of a start has failed, and an earlier one may have arrived.
    #[test]
    fn only_a_final_answer_is_proof() {
        let client = Client::connect("http://127.0.0.1:1", None).unwrap();
        let unreachable =
            || ClientError::Unreachable { address: String::new(), source: "connection refused".into() };
        assert!(!keeps(&client, unreachable()));
        client.was_reached();
        assert!(keeps(&client, unreachable()));
        assert!(keeps(&client, client.connection_lost("cut")));
        assert!(keeps(&client, client.invalid_response("not of a server")));
        for (code, is_kept) in [
            (ErrorCode::LimitExceeded, true),
            (ErrorCode::ShuttingDown, true),
            (ErrorCode::ProcessAlreadyExists, false),
        ] {
            assert_eq!(keeps(&client, ClientError::local(code, String::new())), is_kept, "{code:?}");
        }
    }
}
