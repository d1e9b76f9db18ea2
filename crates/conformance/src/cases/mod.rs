//! The cases: one named behaviour of a server each, observed from outside.
//!
//! A case sends HTTP requests, runs shell text that works on any Linux machine, and panics if the server
//! behaves incorrectly. It uses unique names and cleans up, so that cases can share a server. `list.rs` lists
//! all cases. The program and the tests are generated from this list, and a case that is missing in it does
//! not compile.

mod access;
mod backup;
mod concurrency;
mod disconnect;
mod environment;
mod exactly_once;
mod execute;
mod exposure;
mod file_change;
mod file_content;
mod file_info;
mod file_raw;
mod folder;
pub mod steps;
pub mod test_rng;
#[macro_use]
mod list;
mod output;
mod port;
mod process;
mod protocol;
mod reference;
mod requests;
mod resume;
mod search;
mod server;
mod service;
mod session;
mod shapes;
mod stdin;
mod stream;
mod terminal;
mod terminal_socket;
mod traps;
mod watch;
mod websocket;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::http::Target;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name: the file and the behaviour.
    pub name: &'static str,
    run: fn(Target) -> Running,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// Finds a case by name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|case| case.name == name).copied()
    }

    /// Runs the case. It panics if the server behaves incorrectly.
    pub async fn run(self, target: Target) {
        (self.run)(target).await;
    }
}

macro_rules! all {
    ($($module:ident { $($case:ident)* })*) => {
        /// All cases.
        pub const ALL: &[Case] = &[$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            run: |target| Box::pin($module::$case(target)),
        },)*)*];
    };
}

every_case!(all);
