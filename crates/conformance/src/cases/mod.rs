//! The cases: what a server has to do, one named behaviour each, told from outside.
//!
//! A case asks over HTTP, runs shell text that any Linux machine has, and panics where the server is wrong. It uses
//! names of its own and leaves nothing behind, so that cases can share a server. `list.rs` names them all: the program
//! and the tests are made from that one list, and a case that is not in it does not compile.

mod access;
pub mod ask;
mod concurrency;
pub mod dice;
mod disconnect;
mod environment;
mod exactly_once;
mod execute;
#[macro_use]
mod list;
mod output;
mod process;
mod protocol;
mod reference;
mod requests;
mod resume;
mod service;
mod session;
mod shapes;
mod stdin;
mod stream;
mod traps;
mod websocket;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::http::Target;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is called: the file and the behaviour.
    pub name: &'static str,
    run: fn(Target) -> Running,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|case| case.name == name).copied()
    }

    /// Runs it; it panics where the server is wrong.
    pub async fn run(self, target: Target) {
        (self.run)(target).await;
    }
}

macro_rules! all {
    ($($module:ident { $($case:ident)* })*) => {
        /// Every case there is.
        pub const ALL: &[Case] = &[$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            run: |target| Box::pin($module::$case(target)),
        },)*)*];
    };
}

every_case!(all);
