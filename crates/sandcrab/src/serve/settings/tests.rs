//! Variables are tested with real processes in `tests/`: the environment belongs to the whole test process.

use clap::{Args, CommandFactory, FromArgMatches};

use super::*;
use crate::cli::Cli;

fn parse(words: &[&str]) -> ServeArgs {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let matches = command.try_get_matches_from([&["serve"], words].concat()).unwrap();
    ServeArgs::from_arg_matches(&matches).unwrap()
}

/// Settings of a server on a temporary state directory, with a configuration file.
fn resolve(words: &[&str], file: &str) -> Result<Settings, SettingsError> {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, file).unwrap();
    let mut args = parse(words);
    args.config = Some(config);
    args.state_dir = Some(dir.path().join("state"));
    Settings::resolve(args, false)
}

fn refused(words: &[&str]) -> String {
    resolve(words, "").unwrap_err().to_string()
}

#[test]
fn everything_has_a_default() {
    let Settings { server, token_file, log_format, .. } = resolve(&[], "").unwrap();
    assert_eq!(server.listen, Listen::Tcp("127.0.0.1:7070".parse().unwrap()));
    assert_eq!(token_file, server.engine.state_dir.join("token"));
    assert!(server.access.token.is_some());
    assert_eq!((server.stop_executions, log_format), (None, LogFormat::Text));
}

#[test]
fn the_command_line_counts_before_the_file() {
    let file = "drain-window = \"3s\"\nstop-executions = true\nstop-grace = \"1m\"\nallow-host = [\"a\", \"b\"]\n\
                journal-bytes = 1048576\nlog-format = \"json\"\n";
    let Settings { server, log_format, .. } = resolve(&["--drain-window", "4s"], file).unwrap();
    assert_eq!(server.drain_window, Duration::from_secs(4));
    assert_eq!(server.stop_executions, Some(Duration::from_secs(60)));
    assert_eq!(server.access.allowed_hosts, ["a", "b"]);
    assert_eq!(server.engine.journal_bytes, 1 << 20);
    assert_eq!(log_format, LogFormat::Json);
    let off = resolve(&["--stop-executions=false", "--allow-host", "c"], file).unwrap().server;
    assert_eq!((off.stop_executions, off.access.allowed_hosts), (None, vec!["c".to_owned()]));
}

#[test]
fn names_of_previews_are_checked() {
    let words = ["--name", "my-box", "--preview-host", "p.example.com", "--preview-scheme", "https"];
    let expected = PreviewSettings::new("my-box", Some("p.example.com"), PreviewScheme::Https).unwrap();
    assert_eq!(resolve(&words, "").unwrap().server.previews, expected);
    assert_eq!(resolve(&[], "").unwrap().server.previews, PreviewSettings::default());
    assert!(refused(&["--name", "My Box"]).contains("lowercase letters, digits and hyphens"));
    assert!(refused(&["--preview-host", "127.0.0.1"]).contains("expected a domain name"));
}

#[test]
fn limits_reach_the_engine() {
    let words = "--retention-age 2h --retention-count 5 --retention-bytes 1GiB --ready-shells 0 --max-executions 7 \
                 --max-sessions 8 --max-terminals 6 --max-connections 9 --max-body-bytes 1GiB --command-timeout 5s --max-output-bytes 1KiB";
    let server = resolve(&words.split_whitespace().collect::<Vec<_>>(), "").unwrap().server;
    let engine = &server.engine;
    let retention = Retention {
        max_age: Duration::from_secs(7200),
        max_count: 5,
        max_total_bytes: 1 << 30,
        ..Retention::default()
    };
    assert_eq!(engine.retention, retention);
    assert_eq!((engine.ready_shells, engine.max_executions, engine.max_sessions), (0, 7, 8));
    assert_eq!(engine.max_terminals, 6);
    assert_eq!((server.limits.connections, server.limits.body_bytes), (9, 1 << 30));
    assert_eq!(server.limits.held_body_bytes, 1 << 30);
    let defaults = Defaults { timeout: Some(Duration::from_secs(5)), max_output_bytes: Some(1024) };
    assert_eq!(server.defaults, defaults);
}

#[test]
fn no_auth_requires_a_loopback_address_or_trust() {
    for listen in ["127.0.0.1:0", "[::1]:0", "unix:/tmp/s", "[::ffff:127.0.0.1]:0"] {
        assert!(resolve(&["--no-auth", "--listen", listen], "").unwrap().server.access.token.is_none());
    }
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7070"] {
        assert!(refused(&["--no-auth", "--listen", listen]).contains("--trust-network"));
        assert!(resolve(&["--listen", listen], "").is_ok());
        resolve(&["--no-auth", "--trust-network", "--listen", listen], "").unwrap();
    }
}

#[test]
fn compatibility_mode_implies_defaults() {
    let file = "compat = \"sandbox-sdk\"\n";
    let server = resolve(&[], file).unwrap().server;
    assert_eq!(server.listen, Listen::Tcp("0.0.0.0:3000".parse().unwrap()));
    assert!(server.compat.is_some() && server.access.token.is_none());
    assert!(super::super::compat::warning(&server).unwrap().contains("0.0.0.0:3000"));
    let words = ["--compat", "sandbox-sdk", "--listen", "127.0.0.1:1", "--no-auth=false"];
    let server = resolve(&words, "").unwrap().server;
    assert_eq!(server.listen, Listen::Tcp("127.0.0.1:1".parse().unwrap()));
    assert!(server.access.token.is_some() && super::super::compat::warning(&server).is_none());
    // It is trusted only because the mode says so.
    let words = ["--compat", "sandbox-sdk", "--trust-network=false"];
    assert!(refused(&words).contains("--trust-network"));
}

#[test]
fn invalid_settings_are_refused() {
    assert!(refused(&["--listen", "nowhere"]).contains("HOST:PORT or unix:PATH"));
    assert!(refused(&["--listen", "unix:"]).contains("the path is missing"));
    assert!(refused(&["--workspace", "/proc/version"]).contains("it is not a directory"));
    assert!(refused(&["--workspace", "/not/there"]).contains("use an existing directory"));
    assert!(refused(&["--journal-bytes", "1"]).contains("too small"));
    assert!(refused(&["--max-connections", "0"]).contains("at least 1"));
    assert!(refused(&["--log", "sandcrab=loud"]).contains("use error, warn"));
}

#[test]
fn settings_without_effect_are_refused() {
    assert!(
        refused(&["--stop-grace", "5s"]).contains("--stop-grace has no effect without --stop-executions")
    );
    assert!(refused(&["--stop-grace", "5s", "--stop-executions=false"]).contains("--stop-executions"));
    resolve(&["--stop-grace", "5s", "--stop-executions"], "").unwrap();
    assert!(refused(&["--trust-network"]).contains("--trust-network has no effect without --no-auth"));
    resolve(&["--compat", "sandbox-sdk", "--trust-network"], "").unwrap();
}

#[test]
fn as_process_1_it_ends_executions() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "").unwrap();
    let mut args = parse(&[]);
    args.config = Some(config);
    args.state_dir = Some(dir.path().join("state"));
    let server = Settings::resolve(args, true).unwrap().server;
    assert_eq!(server.stop_executions, Some(Duration::from_secs(900)));
}

/// Every option of `serve`, as clap has it.
fn options() -> Vec<clap::Arg> {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap().clone();
    serve.get_arguments().filter(|arg| arg.get_long().is_some_and(|name| name != "help")).cloned().collect()
}

#[test]
fn every_option_is_a_variable_and_a_key() {
    for option in options() {
        let name = option.get_long().unwrap();
        let variable = format!("SANDCRAB_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(option.get_env().unwrap().to_str(), Some(variable.as_str()));
        if name == "config" {
            continue;
        }
        let value = match option.get_value_names().unwrap()[0].as_str() {
            "BOOL" => "true",
            "SIZE" => "\"2MiB\"",
            "DURATION" => "\"3m\"",
            "COUNT" => "4",
            "FORMAT" => "\"json\"",
            "SCHEME" => "\"https\"",
            "MODE" => "\"sandbox-sdk\"",
            "NAME" | "ORIGIN" => "[\"x\"]",
            _ => "\"x\"",
        };
        let said: ServeArgs = toml::from_str(&format!("{name} = {value}")).unwrap();
        assert_ne!(said, ServeArgs::default(), "{name}");
        // It is passed on where the command line is silent, and not where it speaks.
        assert_eq!(ServeArgs::default().or(said.clone()), said, "{name}");
        assert_eq!(said.clone().or(ServeArgs::default()), said, "{name}");
    }
}

/// The table of docs/configuration.md.
fn table() -> String {
    use std::fmt::Write;
    let mut text = String::from("| option and key | variable | value | what it is |\n|---|---|---|---|\n");
    for option in options() {
        let name = option.get_long().unwrap();
        let variable = option.get_env().unwrap().to_str().unwrap();
        let value = option.get_value_names().unwrap()[0].as_str();
        let help = option.get_help().unwrap().to_string().replace('|', "\\|").replace('*', "\\*");
        let key = if name == "config" { "`config` (not a key)".to_owned() } else { format!("`{name}`") };
        writeln!(text, "| {key} | `{variable}` | {value} | {help} |").unwrap();
    }
    text
}

#[test]
fn reference_matches_the_program() {
    const BEGIN: &str = "<!-- options:begin -->\n";
    const END: &str = "<!-- options:end -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("SANDCRAB_UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
    } else {
        assert!(
            written == table(),
            "run this test with SANDCRAB_UPDATE_DOCS=1 to write docs/configuration.md"
        );
    }
}
