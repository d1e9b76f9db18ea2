//! Every way to end, with what is said about it.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, End, EndReason, Limits};

use crate::support::{
    BOTH, Kind, Scene, Seen, TEST_TIMEOUT, eventually, running_in, supervisor_of, with_enough_time,
};

const MIB: u64 = 1 << 20;

/// Runs a command to its end.
async fn end_of(scene: &Scene, kind: Kind, spec: CommandSpec) -> End {
    let running = scene.start(kind, spec).await;
    let end = End::clone(&*running.execution.wait().await.unwrap());
    running.close().await;
    end
}

#[tokio::test]
async fn exited() {
    let scene = Scene::open().await;
    for kind in BOTH {
        for (text, code) in [("true", 0), ("(exit 7)", 7), ("nosuchprogram 2>&-", 127), ("exit 200", 200)] {
            let end = end_of(&scene, kind, CommandSpec::shell(text)).await;
            assert_eq!(
                (end.reason, end.exit_code, end.signal),
                (EndReason::Exited, Some(code), None),
                "{text}"
            );
            assert_eq!(end.shell_ended, kind == Kind::Session && text.starts_with("exit"), "{text}");
        }
    }
}

#[tokio::test]
async fn signal_that_killed_a_child_is_in_the_shells_exit_code() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let end = end_of(&scene, kind, CommandSpec::shell("sh -c 'kill -SEGV $$'; (exit $?)")).await;
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(139)), "{kind:?} {end:?}");
    }
}

#[tokio::test]
async fn signaled() {
    let scene = Scene::open().await;
    for (name, number) in [("KILL", libc::SIGKILL), ("TERM", libc::SIGTERM), ("USR1", libc::SIGUSR1)] {
        let argv = CommandSpec::argv(["sh", "-c", &format!("kill -{name} $$")]);
        let end = end_of(&scene, Kind::Run, argv).await;
        assert_eq!(
            (end.reason, end.exit_code, end.signal),
            (EndReason::Signaled, Some(128 + number), Some(number))
        );
        for kind in BOTH {
            let end = end_of(&scene, kind, CommandSpec::shell(format!("kill -{name} $$; sleep 60"))).await;
            assert_eq!(
                (end.reason, end.signal),
                (EndReason::Signaled, Some(number)),
                "{kind:?} {name} {end:?}"
            );
            assert_eq!(end.exit_code, Some(128 + number));
            assert_eq!(end.shell_ended, kind == Kind::Session && name == "KILL");
        }
    }
}

#[tokio::test]
async fn timeout() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let end =
            end_of(&scene, kind, CommandSpec::shell("sleep 60").timeout(Duration::from_millis(80))).await;
        assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{kind:?}");
        assert!(end.usage.wall >= Duration::from_millis(80));
    }
}

#[tokio::test]
async fn idle_timeout() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let spec = CommandSpec::shell("echo; sleep 60").idle_timeout(Duration::from_millis(80));
        let end = end_of(&scene, kind, spec).await;
        assert_eq!((end.reason, end.exit_code), (EndReason::IdleTimeout, Some(124)), "{kind:?}");
    }
}

#[tokio::test]
async fn killed() {
    let scene = Scene::open().await;
    for kind in BOTH {
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGINT] {
            let running = scene.start(kind, CommandSpec::shell("sleep 60")).await;
            running.execution.kill(signal, Duration::from_secs(5)).await.unwrap();
            let end = running.execution.wait().await.unwrap();
            assert_eq!(
                (end.reason, end.exit_code),
                (EndReason::Killed, Some(128 + signal)),
                "{kind:?} {end:?}"
            );
            running.close().await;
        }
    }
}

#[tokio::test]
async fn output_limit() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let limits = Limits { output_bytes: Some(10), ..Limits::default() };
        let end = end_of(&scene, kind, CommandSpec::shell("yes").limits(limits)).await;
        assert_eq!((end.reason, end.exit_code), (EndReason::OutputLimit, Some(137)), "{kind:?} {end:?}");
    }
}

#[tokio::test]
async fn session_ended() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let running = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    let queued = session.start(CommandSpec::shell("echo never")).await.unwrap();
    running.wait_started().await.unwrap();
    session.delete().await.unwrap();
    for execution in [running, queued] {
        let end = execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::SessionEnded, Some(137)), "{end:?}");
    }
}

#[tokio::test]
async fn session_ended_by_a_reset() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let running = session.start(CommandSpec::shell("sleep 60")).await.unwrap();
    running.wait_started().await.unwrap();
    session.reset(true).await.unwrap();
    assert_eq!(running.wait().await.unwrap().reason, EndReason::SessionEnded);
    session.delete().await.unwrap();
}

#[tokio::test]
async fn lost() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "echo before; setsid sleep 60 & sleep 60";
        let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder)).await;
        eventually("both are up", || running_in(&folder, "sleep").len() == 2).await;
        let there = running_in(&folder, "sleep");
        supervisor_of(&running.execution).kill();
        let end = running.execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code, end.signal), (EndReason::Lost, None, None), "{kind:?}");
        eventually("nothing is left", || !there.iter().copied().any(Seen::is_alive)).await;
        assert_eq!(running.execution.output(100).unwrap().stdout.bytes, b"before\n");
        running.close().await;
    }
}

#[tokio::test]
async fn processor_time_is_counted() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "i=0; while (( i++ < 100000 )); do :; done";
        let own = end_of(&scene, kind, CommandSpec::shell(text)).await.usage;
        assert!(own.user > Duration::from_millis(30), "{kind:?} {own:?}");
        let text = "dd if=/dev/zero of=/dev/null bs=1 count=300000 status=none";
        let childs = end_of(&scene, kind, CommandSpec::shell(text)).await.usage;
        assert!(childs.system > Duration::from_millis(20), "{kind:?} {childs:?}");
        let orphans = "( (i=0; while (( i++ < 100000 )); do :; done; touch done) & )
                       until [ -e done ]; do sleep 0.01; done; sleep 0.05";
        let folder = scene.folder(&format!("{kind:?}"));
        if kind == Kind::Run {
            let orphans = end_of(&scene, kind, CommandSpec::shell(orphans).cwd(folder)).await.usage;
            assert!(orphans.user > Duration::from_millis(30), "{kind:?} {orphans:?}");
        }
        let idle = end_of(&scene, kind, CommandSpec::shell("sleep 0.2")).await.usage;
        assert!(idle.user + idle.system < Duration::from_millis(100), "{kind:?} {idle:?}");
        assert!(idle.wall >= Duration::from_millis(200) && idle.wall < TEST_TIMEOUT, "{idle:?}");
        assert!(own.wall >= own.user / 2 && own.wall < TEST_TIMEOUT, "{own:?}");
    }
}

#[tokio::test]
async fn memory_is_counted() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "/usr/bin/python3 -c 'x = bytearray(100 << 20)'";
        let used = end_of(&scene, kind, CommandSpec::shell(text)).await.usage;
        assert!((100 * MIB..200 * MIB).contains(&used.max_rss_bytes), "{kind:?} {used:?}");
        let little = end_of(&scene, kind, CommandSpec::shell("true")).await.usage;
        assert!((MIB..30 * MIB).contains(&little.max_rss_bytes), "{kind:?} {little:?}");
    }
}

#[tokio::test]
async fn usage_before_a_kill_is_counted() {
    let scene = Scene::open().await;
    for kind in BOTH {
        // On a busy machine it has little of the time until its deadline.
        with_enough_time(Duration::from_millis(400), async |timeout| {
            let spec = CommandSpec::shell("while :; do :; done").timeout(timeout);
            let used = end_of(&scene, kind, spec).await.usage;
            (used.user > Duration::from_millis(40)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn usage_of_an_earlier_command_is_not_counted_again() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let text = "/usr/bin/python3 -c 'x = bytearray(100 << 20)'; i=0; while (( i++ < 100000 )); do :; done";
    let earlier = session.run(CommandSpec::shell(text)).await.unwrap().end.usage;
    let used = session.run(CommandSpec::shell("/bin/true")).await.unwrap().end.usage;
    assert!(used.user + used.system < earlier.user / 2, "{used:?} {earlier:?}");
    assert!(used.max_rss_bytes < 50 * MIB, "{used:?}");
    session.delete().await.unwrap();
}

#[tokio::test]
async fn output_limit_exceeded_at_the_end_is_the_reason() {
    let scene = Scene::open().await;
    let limits = Limits { output_bytes: Some(100), ..Limits::default() };
    for kind in BOTH {
        // Ended before any read: all output is in the pipe.
        for _ in 0..10 {
            let spec = CommandSpec::shell("printf %101s x").limits(limits.clone());
            let end = end_of(&scene, kind, spec).await;
            assert_eq!((end.reason, end.exit_code), (EndReason::OutputLimit, Some(137)), "{kind:?}");
            let spec = CommandSpec::shell("printf %100s x").limits(limits.clone());
            assert_eq!(end_of(&scene, kind, spec).await.reason, EndReason::Exited, "{kind:?}");
        }
    }
}
