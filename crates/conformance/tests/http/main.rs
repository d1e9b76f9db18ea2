//! The conformance suite against a new server per case, and tests that must control their server: crashes,
//! limits and load.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod backups;
mod compat;
mod crash;
mod files;
mod git;
mod health;
mod http2;
mod limits;
mod load;
mod previews;
mod readers;
mod run_as;
mod searches;
mod services;
mod sockets;
mod stopping;
mod support;
mod terminals;
mod viewers;

use sandcrab_conformance::cases::Case;

/// Runs one case against a new server.
fn conforms(name: &str) {
    let case = Case::named(name).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let server = support::ServerProcess::start(&[]).await;
        case.run(server.target.clone()).await;
        server.stop().await;
    });
}

macro_rules! tests {
    ($($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                crate::conforms(concat!(stringify!($module), "::", stringify!($case)));
            })*
        })*
    };
}

/// Each case as a test.
mod cases {
    sandcrab_conformance::every_case!(tests);
}
