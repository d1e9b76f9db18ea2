//! End-to-end tests of the program, with real servers, commands and signals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod background;
mod batch;
mod completions;
mod errors;
mod exec;
mod explain;
mod expose;
mod files;
mod git;
mod help;
#[path = "../../../engine/tests/engine/history.rs"]
mod history;
mod input_log;
mod log_ids;
mod mcp;
mod options;
mod play;
mod ports;
mod previous;
mod processes;
mod resume;
mod run;
mod sdk;
mod search;
mod serve_compat;
mod serve_config;
mod serve_drain;
mod serve_init;
mod serve_main_program;
mod serve_restart;
mod serve_run_as;
mod serve_start;
mod serve_stop;
mod serve_trust;
mod server_discovery;
mod service;
mod sessions;
mod signals;
mod support;
mod terminal;
mod terminals;
mod terminals_script;
