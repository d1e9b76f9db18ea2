//! `--run-as`: the user of commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Serve, TestDir};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[track_caller]
fn user_of_a_command(place: &TestDir, serve: &Serve) -> String {
    let answer = serve.ask(place, "POST /api/execute", r#"{"command":"id -u"}"#).unwrap();
    answer
        .rsplit_once("\"stdout\":\"")
        .map(|(_, rest)| rest.split("\\n").next().unwrap().to_owned())
        .unwrap_or(answer)
}

#[test]
fn root_option_variable_and_file_set_the_user() {
    let place = TestDir::new();
    let folder = place.file("config/sandcrab");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "run-as = \"54321:54321\"\nworkspace = \"/\"\n").unwrap();
    for (variable, option, expected) in
        [(None, None, "54321"), (Some("54322:1"), None, "54322"), (Some("54322:1"), Some("nobody"), "65534")]
    {
        let mut command = place.command();
        // A directory that every user may enter.
        command.env_remove("SANDCRAB_WORKSPACE");
        command.envs(variable.map(|user| ("SANDCRAB_RUN_AS", user)));
        command.args(option.into_iter().flat_map(|user| ["--run-as", user]));
        let serve = Serve::start(&place, &mut command);
        assert_eq!(user_of_a_command(&place, &serve), expected);
        serve.stop();
    }
}

#[test]
fn invalid_user_is_refused() {
    let place = TestDir::new();
    let refused = |options: &[&str]| {
        let (code, said) = place.refused(place.command().args(options));
        assert_eq!(code, Some(2), "{said}");
        said
    };
    assert!(refused(&["--run-as", "no-such-user"]).contains("user \"no-such-user\" not found"));
    assert!(refused(&["--run-as", "54321"]).contains("give UID:GID"));
    assert!(refused(&["--run-as", "root", "--workspace", "/"]).contains("give another user"));
    if is_root() {
        let workspace = place.file("closed");
        fs::create_dir(&workspace).unwrap();
        fs::set_permissions(&workspace, fs::Permissions::from_mode(0o700)).unwrap();
        let said = refused(&["--run-as", "54321:54321", "--workspace", workspace.to_str().unwrap()]);
        assert!(said.contains("cannot enter the workspace") && said.contains("Permission denied"), "{said}");
    } else {
        assert!(refused(&["--run-as", "54321:54321"]).contains("only root can run commands as another user"));
    }
}
