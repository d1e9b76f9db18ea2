//! Deadlines: kept on time, with what was written until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, DEFAULT_TIMEOUT_GRACE, EndReason, Execution, Limits};

use crate::support::{BOTH, Kind, Scene, TEST_TIMEOUT, eventually, running_in, with_enough_time};

/// How late the end may be, mostly and at most, on a machine that has time.
const MOSTLY: Duration = Duration::from_millis(50);
const AT_MOST: Duration = Duration::from_millis(250);
/// How many processes and threads have their turn one after the other until an end is seen.
const TURNS: u32 = 8;
const TIMEOUT: Duration = Duration::from_millis(100);

/// What does not want to end.
const STUBBORN: [&str; 6] = [
    "echo partial; sleep 60; echo no",
    "echo partial; while :; do :; done",
    "echo partial; trap '' INT TERM; while :; do :; done",
    "echo partial; (trap '' HUP INT TERM; sleep 60; sleep 60); echo no",
    "echo partial; setsid sleep 60 & wait; echo no",
    "echo partial; until false; do sleep 0.01; done",
];

/// How late this machine wakes a thread that sleeps and starts a program, for as long as this lives.
struct Lateness {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Duration>>>,
}

impl Lateness {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(Duration::from_millis(5));
                // To start, end and reap a program needs processor time, which others may have.
                std::process::Command::new("/bin/true").status().unwrap();
                all.push(begun.elapsed().saturating_sub(Duration::from_millis(5)));
            }
            all.sort();
            all
        });
        Self { over, thread: Some(thread) }
    }

    /// Checks a number of delays.
    fn check(mut self, mut delays: Vec<Duration>) {
        self.over.store(true, Ordering::Relaxed);
        let of_machine = self.thread.take().unwrap().join().unwrap();
        // One turn that is late now and then is the machine's own.
        let slow = of_machine[of_machine.len() * 9 / 10];
        let slowest = of_machine[of_machine.len() - 1];
        delays.sort();
        let late = format!("{delays:?}, on a machine that is late by {slow:?}, at most {slowest:?}");
        assert!(delays[delays.len() / 2] <= MOSTLY + TURNS * slow, "{late}");
        assert!(delays[delays.len() - 1] <= AT_MOST + TURNS * slowest, "{late}");
    }
}

/// Waits for the end; gives back how much later than `due` it came, by its own account and by ours.
async fn delay(execution: &Execution, begun: Instant, due: Duration) -> [Duration; 2] {
    let end = execution.wait().await.unwrap();
    let seen = begun.elapsed();
    assert!(end.usage.wall >= due, "{:?} is before {due:?}", end.usage.wall);
    [end.usage.wall - due, seen.saturating_sub(due)]
}

/// Whether a command has written this until its deadline: all of it, or nothing because the deadline was too short.
#[track_caller]
fn written(execution: &Execution, expected: &[u8]) -> Option<()> {
    let output = execution.output(100).unwrap().stdout.bytes;
    assert!(output.is_empty() || output == expected, "{}", String::from_utf8_lossy(&output));
    (!output.is_empty()).then_some(())
}

async fn times_out(kind: Kind) {
    let scene = Scene::open().await;
    let lateness = Lateness::begin();
    let mut delays = Vec::new();
    for text in STUBBORN {
        let mut running = scene.start(kind, CommandSpec::shell("kept=yes; echo $$")).await;
        running.execution.wait().await.unwrap();
        let shell = running.execution.output(100).unwrap().stdout.bytes;
        for _ in 0..2 {
            with_enough_time(TIMEOUT, async |timeout| {
                let mut spec = CommandSpec::shell(text).timeout(timeout);
                spec.timeout_grace = Duration::ZERO;
                running.execution = match &running.session {
                    Some(session) => session.start(spec).await.unwrap(),
                    None => scene.engine.start(spec).await.unwrap(),
                };
                running.execution.wait_started().await.unwrap();
                delays.extend(delay(&running.execution, Instant::now(), timeout).await);
                let end = running.execution.wait().await.unwrap();
                assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{text} {end:?}");
                written(&running.execution, b"partial\n")
            })
            .await;
        }
        if let Some(session) = running.session {
            let next = session.run(CommandSpec::shell("[ $kept = yes ] && echo $$")).await.unwrap();
            assert_eq!(next.output.stdout.bytes, shell, "after {text}: {:?}", next.end);
            session.delete().await.unwrap();
        }
    }
    lateness.check(delays);
}

#[tokio::test]
async fn serial_a_run_times_out_on_time() {
    times_out(Kind::Run).await;
}

#[tokio::test]
async fn serial_a_sessions_command_times_out_on_time() {
    times_out(Kind::Session).await;
}

#[tokio::test]
async fn serial_idle_timeout_is_on_time() {
    let scene = Scene::open().await;
    let lateness = Lateness::begin();
    let mut delays = Vec::new();
    for kind in BOTH {
        with_enough_time(Duration::from_millis(300), async |idle| {
            // Silent for long enough only at the end.
            let text = "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; echo last; sleep 300";
            let running = scene.start(kind, CommandSpec::shell(text).idle_timeout(idle)).await;
            let mut follower = running.execution.follow(0).unwrap();
            let mut last = Instant::now();
            while let Some(entry) = follower.next().await.unwrap() {
                if let sandcrab_engine::Event::Output { .. } = entry.event {
                    last = Instant::now();
                }
            }
            delays.push(last.elapsed().saturating_sub(idle));
            let end = running.execution.wait().await.unwrap();
            assert_eq!((end.reason, end.exit_code), (EndReason::IdleTimeout, Some(124)), "{kind:?}");
            let output = running.execution.output(100).unwrap().stdout.bytes;
            assert!(b"1\n2\n3\n4\n5\nlast\n".starts_with(&output), "{output:?}");
            running.answers().await;
            if !output.ends_with(b"last\n") {
                return None;
            }
            assert!(end.usage.wall >= idle + Duration::from_millis(500));
            Some(())
        })
        .await;
    }
    lateness.check(delays);
}

#[tokio::test]
async fn first_deadline_to_expire_decides() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let long = Duration::from_secs(60);
        let spec = |wall, idle| CommandSpec::shell("sleep 60").timeout(wall).idle_timeout(idle);
        for (spec, reason) in
            [(spec(TIMEOUT, long), EndReason::Timeout), (spec(long, TIMEOUT), EndReason::IdleTimeout)]
        {
            let running = scene.start(kind, spec).await;
            assert_eq!(running.execution.wait().await.unwrap().reason, reason);
            running.answers().await;
        }
    }
}

#[tokio::test]
async fn serial_program_exits_within_the_grace_period() {
    let scene = Scene::open().await;
    let lateness = Lateness::begin();
    let mut delays = Vec::new();
    for kind in BOTH {
        let text = "bash -c 'trap \"echo bye; exit 0\" TERM; echo up; while :; do sleep 0.01; done'";
        with_enough_time(Duration::from_millis(300), async |timeout| {
            let mut spec = CommandSpec::shell(text).timeout(timeout);
            spec.timeout_grace = Duration::from_secs(120);
            let running = scene.start(kind, spec).await;
            delays.extend(delay(&running.execution, Instant::now(), timeout).await);
            let end = running.execution.wait().await.unwrap();
            assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{kind:?}");
            running.execution.wait_closed().await;
            let done = written(&running.execution, b"up\nbye\n");
            running.answers().await;
            done
        })
        .await;
    }
    lateness.check(delays);
}

/// What a program does at SIGTERM is done at its deadline, without anything being asked for; and it is not waited for
/// longer than the program takes.
#[tokio::test]
async fn deadline_sends_sigterm_first() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "bash -c 'trap \"echo bye; exit 0\" TERM; echo up; while :; do sleep 0.01; done'; echo no";
        let idle =
            "bash -c 'trap \"echo bye; exit 0\" TERM; echo up; while :; do sleep 0.01; done' & wait; echo no";
        for (text, reason) in [(text, EndReason::Timeout), (idle, EndReason::IdleTimeout)] {
            with_enough_time(Duration::from_millis(300), async |timeout| {
                let mut spec = CommandSpec::shell(text);
                assert_eq!(spec.timeout_grace, DEFAULT_TIMEOUT_GRACE);
                spec.timeout_grace = Duration::from_secs(120);
                let spec = if reason == EndReason::Timeout {
                    spec.timeout(timeout)
                } else {
                    spec.idle_timeout(timeout)
                };
                let running = scene.start(kind, spec).await;
                let end = running.execution.wait().await.unwrap();
                assert_eq!((end.reason, end.exit_code), (reason, Some(124)), "{kind:?}");
                assert!(end.usage.wall < timeout + TEST_TIMEOUT, "{kind:?} {end:?}");
                running.execution.wait_closed().await;
                let done = written(&running.execution, b"up\nbye\n");
                running.answers().await;
                done
            })
            .await;
        }
    }
}

/// What a signal handler starts to clean up is left to it until the grace period is over.
#[tokio::test]
async fn signal_handler_can_run_programs() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let handler = "sh -c \"sleep 0.3; echo cleaned\"; exit 0";
        let text = format!(
            "bash -c 'trap \"{}\" TERM; echo up; while :; do sleep 0.05; done'",
            handler.replace('"', "\\\"")
        );
        with_enough_time(Duration::from_millis(300), async |timeout| {
            let mut spec = CommandSpec::shell(text.as_str()).timeout(timeout);
            spec.timeout_grace = Duration::from_secs(120);
            let running = scene.start(kind, spec).await;
            let end = running.execution.wait().await.unwrap();
            assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{kind:?}");
            running.execution.wait_closed().await;
            let done = written(&running.execution, b"up\ncleaned\n");
            running.answers().await;
            done
        })
        .await;
    }
}

/// What does not end by then is killed, all of it, when the grace period is over.
#[tokio::test]
async fn program_cannot_survive_its_deadline() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let folder = scene.folder(&format!("{kind:?}"));
        let text = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 300; sleep 300' & sleep 300; sleep 300";
        let running = scene.start(kind, CommandSpec::shell(text).cwd(&folder).timeout(TIMEOUT)).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{kind:?}");
        assert!(end.usage.wall < TIMEOUT + DEFAULT_TIMEOUT_GRACE + TEST_TIMEOUT, "{kind:?} {end:?}");
        eventually("nothing is left", || running_in(&folder, "sleep").is_empty()).await;
        running.answers().await;
    }
}

#[tokio::test]
async fn serial_grace_period_ends_on_time() {
    let scene = Scene::open().await;
    let lateness = Lateness::begin();
    let mut delays = Vec::new();
    for kind in BOTH {
        let text = "(trap '' HUP INT TERM; echo up; while :; do sleep 0.05; done); echo no";
        with_enough_time(TIMEOUT, async |timeout| {
            let mut spec = CommandSpec::shell(text).timeout(timeout);
            spec.timeout_grace = Duration::from_millis(200);
            let due = timeout + spec.timeout_grace;
            let running = scene.start(kind, spec).await;
            // A run's own shell may be gone before those that it waited for.
            let end = running.execution.wait().await.unwrap();
            assert_eq!((end.reason, end.exit_code), (EndReason::Timeout, Some(124)), "{kind:?}");
            if kind == Kind::Session {
                delays.push(end.usage.wall.saturating_sub(due));
            }
            running.execution.wait_closed().await;
            let done = written(&running.execution, b"up\n");
            running.answers().await;
            done
        })
        .await;
    }
    lateness.check(delays);
}

#[tokio::test]
async fn too_much_output_ends_the_command() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let limits = Limits { output_bytes: Some(100_000), ..Limits::default() };
        let running = scene.start(kind, CommandSpec::shell("echo begin; yes; echo no").limits(limits)).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!(end.reason, EndReason::OutputLimit, "{kind:?} {end:?}");
        assert!(end.usage.wall < TEST_TIMEOUT, "{end:?}");
        let output = running.execution.output(1 << 20).unwrap();
        assert_eq!((output.cursor, output.stdout.bytes.len()), (100_000, 100_000));
        assert!(output.stdout.bytes.starts_with(b"begin\ny\ny\n"));
        running.answers().await;
    }
}

#[tokio::test]
async fn output_up_to_the_limit_is_allowed() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let limits = Limits { output_bytes: Some(100_000), ..Limits::default() };
        let running = scene.start(kind, CommandSpec::shell("head -c 100000 /dev/zero").limits(limits)).await;
        let end = running.execution.wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (EndReason::Exited, Some(0)), "{kind:?}");
        running.answers().await;
    }
}

#[tokio::test]
async fn timeout_excludes_time_in_the_queue() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    with_enough_time(Duration::from_secs(1), async |timeout| {
        let first = format!("sleep {}", timeout.as_secs_f64() * 1.5);
        let first = session.start(CommandSpec::shell(first)).await.unwrap();
        let second = session.run(CommandSpec::shell("echo hi").timeout(timeout)).await.unwrap();
        assert_eq!(first.wait().await.unwrap().exit_code, Some(0));
        let in_time = (second.end.reason, second.stdout().as_str()) == (EndReason::Exited, "hi\n");
        assert!(in_time || second.end.reason == EndReason::Timeout, "{:?}", second.end);
        in_time.then_some(())
    })
    .await;
    session.delete().await.unwrap();
}
