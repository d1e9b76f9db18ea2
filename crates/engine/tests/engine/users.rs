//! Commands of another user than the engine's own, which only root can have.

use sandcrab_engine::{
    CommandSpec, Engine, SessionError, SessionSpec, ShellDriver, StartError, TerminalSpec, User,
};

use crate::support::{Place, eventually, not_run};

async fn open_as(place: &Place, user: &str) -> Engine {
    let user = User::find(user).unwrap();
    place
        .open_with(|config| {
            config.run_as = Some(user);
            config.cwd = "/".into();
        })
        .await
}

#[tokio::test]
async fn root_session_of_another_user_than_the_default_refuses_commands() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new().id("own".parse().unwrap())).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("id -u")).await.unwrap().stdout(), "0\n");
    drop((session, engine));
    eventually("the engine is closed", || place.zygotes().is_empty()).await;
    let engine = open_as(&place, "54321:54321").await;
    let session = engine.session(&"own".parse().unwrap()).unwrap();
    for _ in 0..2 {
        // Its shell lives; then it would have to be brought back.
        for refused in [
            session.run(CommandSpec::shell("id -u")).await.map(drop),
            session.start_process(CommandSpec::shell("id -u")).await.map(drop),
            session.reset(false).await,
        ] {
            let Err(StartError::UserNotAllowed(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains("session own") && why.contains("create another"), "{why}");
        }
        place.supervisors().into_iter().for_each(crate::support::Seen::kill);
    }
    session.delete().await.unwrap();
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("id -u")).await.unwrap().stdout(), "54321\n");
    session.delete().await.unwrap();
}

/// The shell would wait without end for files that it may not open.
#[tokio::test]
async fn root_session_of_another_user_is_refused_with_the_portable_driver() {
    let refusal = |refused: Result<(), SessionError>| match refused {
        Err(SessionError::Start(StartError::NoShell(why))) => {
            assert!(why.contains("another user; use a bash"), "{why}");
        }
        other => panic!("{other:?}"),
    };
    let user = User::find("54321:54321").unwrap();
    let place = Place::new();
    let engine = place
        .open_with(|config| {
            config.run_as = Some(user.clone());
            config.shell_driver = ShellDriver::Portable;
            config.cwd = "/".into();
        })
        .await;
    refusal(engine.create_session(SessionSpec::new()).await.map(drop));
    let problems = engine.health().problems;
    let problem = problems.iter().find(|problem| problem.code == "no_shell").unwrap();
    assert!(problem.message.contains("as 54321"), "{problem:?}");
    // Other commands do not need the driver.
    assert_eq!(engine.run(CommandSpec::shell("id -u")).await.unwrap().stdout(), "54321\n");
    let place = Place::new();
    let engine = place
        .open_with(|config| {
            config.shell_driver = ShellDriver::Portable;
            config.cwd = "/".into();
        })
        .await;
    let mut spec = SessionSpec::new();
    spec.user = Some(user);
    refusal(engine.create_session(spec).await.map(drop));
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    assert_eq!(session.run(CommandSpec::shell("id -u")).await.unwrap().stdout(), "0\n");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn root_a_command_does_not_have_the_session_keyring_of_the_server() {
    if !std::path::Path::new("/proc/keys").exists() {
        not_run("the kernel has no /proc/keys");
        return;
    }
    let place = Place::new();
    let engine = open_as(&place, "54321:54321").await;
    for spec in [CommandSpec::shell("cat /proc/keys"), CommandSpec::argv(["cat", "/proc/keys"])] {
        let keys = engine.run(spec).await.unwrap().stdout();
        let own = keys.lines().filter(|line| line.contains("_ses: empty"));
        assert_eq!(own.count(), 1, "{keys}");
    }
}

#[tokio::test]
async fn root_user_owns_its_terminal() {
    let place = Place::new();
    let engine = open_as(&place, "54321:54321").await;
    let text = "stat -c '%u %g %a' $(tty); echo x > /dev/tty && echo y > $(tty) && echo fine";
    let mut spec = TerminalSpec::command(CommandSpec::shell(text));
    for user in [None, Some("12345:12345")] {
        spec.command.user = user.map(|user| User::find(user).unwrap());
        let terminal = engine.create_terminal(spec.clone()).await.unwrap().terminal;
        terminal.execution().wait().await.unwrap();
        let output = terminal.execution().output(10_000).unwrap().stdout.bytes;
        let owner = if user.is_some() { "12345 12345" } else { "54321 54321" };
        assert_eq!(String::from_utf8_lossy(&output), format!("{owner} 620\r\nx\r\ny\r\nfine\r\n"));
    }
}
