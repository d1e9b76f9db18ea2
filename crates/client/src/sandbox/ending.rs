//! [`Ending`]: ends what a call has started, if its caller is gone before it has the result.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use tokio::time::{Instant, sleep};

use crate::{Client, ClientError, KillOptions};

/// How long a start may still be on its way to the server, which does not know the id until it arrives.
const START_WINDOW: Duration = Duration::from_secs(2);
const START_PAUSE: Duration = Duration::from_millis(50);

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
/// answer would otherwise leave something running whose id nobody knows.
#[derive(Debug)]
pub(super) struct Ending {
    client: Client,
    started: Option<Started>,
}

impl Ending {
    /// To be created before the request is sent. With `None` there is nothing to end: the caller has chosen the id, and may
    /// have named something that existed before.
    pub(super) fn new(client: &Client, started: Option<Started>) -> Self {
        Self { client: client.clone(), started }
    }

    /// What was started has ended, or belongs to the caller now.
    pub(super) fn forget(&mut self) {
        self.started = None;
    }

    /// Passes an answer on. After a lost connection something may have been started; after any other answer the caller knows.
    pub(super) fn answered<T>(mut self, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        self.note(&answer);
        answer
    }

    /// The same for something that belongs to the call also after the answer.
    pub(super) fn note<T>(&mut self, answer: &Result<T, ClientError>) {
        if !matches!(answer, Err(ClientError::ConnectionLost { .. })) {
            self.forget();
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(started) = self.started.take() else { return };
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
                sleep(START_PAUSE).await;
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
