//! Precedence of options, variables and the configuration file.

use std::process::Command;

use crate::support::{Serve, TestDir};

/// A command for which the configuration file, a variable and an option can each set a socket.
fn command(place: &TestDir, file: Option<&str>, variable: Option<&str>, option: Option<&str>) -> Command {
    let socket = |name: &str| format!("unix:{}", place.file(name).display());
    let mut command = place.command();
    command.env_remove("SANDCRAB_LISTEN");
    if let Some(name) = file {
        let folder = place.file("config/sandcrab");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), format!("listen = \"{}\"\n", socket(name))).unwrap();
    }
    if let Some(name) = variable {
        command.env("SANDCRAB_LISTEN", socket(name));
    }
    if let Some(name) = option {
        command.args(["--listen", &socket(name)]);
    }
    command
}

#[test]
fn precedence_of_option_variable_and_file() {
    let place = TestDir::new();
    for (variable, option, expected) in [
        (None, None, "file"),
        (Some("variable"), None, "variable"),
        (Some("variable"), Some("option"), "option"),
    ] {
        let serve = Serve::start(&place, &mut command(&place, Some("file"), variable, option));
        assert_eq!(serve.address, format!("unix:{}", place.file(expected).display()));
        serve.stop();
    }
}

#[test]
fn explicit_file_must_exist() {
    let place = TestDir::new();
    let named = place.file("named.toml");
    std::fs::write(&named, format!("listen = \"unix:{}\"\n", place.file("named").display())).unwrap();
    let mut with_named = command(&place, Some("file"), None, None);
    let serve = Serve::start(&place, with_named.env("SANDCRAB_CONFIG", &named));
    assert!(serve.address.ends_with("/named"));
    serve.stop();
    let (code, said) = place.refused(place.command().arg("--config").arg(place.file("none.toml")));
    assert!(
        code == Some(2)
            && said.contains("the configuration file cannot be used")
            && said.contains("none.toml"),
        "{said}"
    );
}

#[test]
fn an_unknown_variable_is_reported() {
    let place = TestDir::new();
    let mut misspelt = command(&place, None, Some("socket"), None);
    let serve = Serve::start(&place, misspelt.env("SANDCRAB_LISTN", "secret").env("SANDCRAB_TOKEN", "t"));
    let log = serve.log();
    assert!(log.contains("unknown variable SANDCRAB_LISTN"), "{log}");
    assert!(
        !log.contains("SANDCRAB_LISTEN ") && !log.contains("SANDCRAB_TOKEN") && !log.contains("secret"),
        "{log}"
    );
    serve.stop();
}

#[test]
fn invalid_values_are_refused() {
    let place = TestDir::new();
    let file = place.file("bad.toml");
    std::fs::write(&file, "listens = \"127.0.0.1:0\"\n").unwrap();
    let (code, said) = place.refused(place.command().arg("--config").arg(&file));
    assert!(code == Some(2) && said.contains("unknown field `listens`"), "{said}");
    let (code, said) = place.refused(place.command().args(["--stop-grace", "soon"]));
    assert!(code == Some(2) && said.contains("as in 15m"), "{said}");
    let (code, said) = place.refused(place.command().env("COMMAND_TIMEOUT_MS", "30s"));
    assert!(code == Some(2) && said.contains("COMMAND_TIMEOUT_MS"), "{said}");
    assert!(!place.state().join("lock").exists(), "nothing was begun");
}
