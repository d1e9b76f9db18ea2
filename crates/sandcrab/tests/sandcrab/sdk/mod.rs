//! The Rust SDK (`sandcrab_client::Sandbox`) against a real server.

mod behaviour;
mod bodies;
mod calls;
mod drops;
mod expectation;
mod load;
mod operations;
mod proxies;
mod repeats;
mod services;
mod streams;

use sandcrab_client::Sandbox;

use crate::support::TestServer;

fn sandbox(server: &TestServer) -> Sandbox {
    Sandbox::connect(&format!("http://{}", server.address()), Some(server.token())).unwrap()
}
