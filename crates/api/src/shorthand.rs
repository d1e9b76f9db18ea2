//! Requests from the one value that most callers give: a path, a pattern, a command, a port.

use crate::backup::CreateBackupRequest;
use crate::execute::CommandRequest;
use crate::file::{DeleteRequest, ListRequest, MkdirRequest, PathRequest, ReadRequest};
use crate::git::{
    GitAddRequest, GitCheckoutRequest, GitCommitRequest, GitDiffRequest, GitLogRequest, GitRequest,
    GitSyncRequest,
};
use crate::port::{ExposePortRequest, PortWatchRequest};
use crate::search::{FindRequest, SearchRequest};
use crate::service::ServiceRequest;
use crate::session::SessionRequest;
use crate::terminal::{TerminalInputRequest, TerminalRequest, TerminalWaitRequest};
use crate::watch::{WatchCheckRequest, WatchRequest};

macro_rules! from_text {
    ($($request:ident: $field:ident;)+) => {
        $(impl From<String> for $request {
            fn from(text: String) -> Self {
                Self { $field: text.into(), ..Self::default() }
            }
        }

        impl From<&str> for $request {
            fn from(text: &str) -> Self {
                Self::from(text.to_owned())
            }
        })+
    };
}

from_text! {
    CommandRequest: command;
    CreateBackupRequest: dir;
    DeleteRequest: path;
    FindRequest: path;
    GitAddRequest: path;
    GitCheckoutRequest: repo_url;
    GitCommitRequest: message;
    GitDiffRequest: path;
    GitLogRequest: path;
    GitRequest: path;
    GitSyncRequest: path;
    ListRequest: path;
    MkdirRequest: path;
    PathRequest: path;
    ReadRequest: path;
    SearchRequest: pattern;
    ServiceRequest: command;
    SessionRequest: id;
    TerminalInputRequest: text;
    TerminalRequest: command;
    TerminalWaitRequest: text;
    WatchCheckRequest: path;
    WatchRequest: path;
}

impl From<u16> for ExposePortRequest {
    fn from(port: u16) -> Self {
        Self { port: port.into(), ..Self::default() }
    }
}

impl From<u16> for PortWatchRequest {
    fn from(port: u16) -> Self {
        Self { port: port.into(), ..Self::default() }
    }
}
