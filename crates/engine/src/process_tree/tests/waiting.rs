//! Detection of processes that wait for input.

use super::*;
use rustix::io::{dup, write};
use rustix::pipe::pipe;
use rustix::stdio::dup2_stdin;

/// Starts a command with a pipe as standard input.
fn with_pipe(text: &str) -> std::os::fd::OwnedFd {
    let (read, write) = pipe().unwrap();
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::CLOEXEC).unwrap();
    let before = dup(rustix::stdio::stdin()).unwrap();
    rustix::io::fcntl_setfd(&before, rustix::io::FdFlags::CLOEXEC).unwrap();
    dup2_stdin(&read).unwrap();
    drop(read);
    start(text, None, None);
    dup2_stdin(&before).unwrap();
    write
}

alone! {
    fn readers_wait() {
        for text in [
            "read x; sleep 30",
            "exec cat >/dev/null",
            "exec python3 -c 'input()'",
            "exec python3 -c 'import select, sys; select.select([sys.stdin], [], [])'",
            "exec python3 -c 'import select, sys; p = select.poll(); p.register(0, select.POLLIN); p.poll()'",
            "(bash -c 'read x'); :",
        ] {
            let stdin = with_pipe(text);
            until(text, || waits_for_input(&live(), &stdin) == Waiting::Yes);
            end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
            reap_all();
        }
    }

    fn others_do_not() {
        for (text, up) in [
            ("exec sleep 30", "sleep 30"),
            ("exec -a busy bash -c 'while :; do :; done'", "busy"),
            ("exec python3 -c 'import os; r, w = os.pipe(); os.write(2, b\"\"); os.read(r, 1)'", "python3"),
        ] {
            let stdin = with_pipe(text);
            until(text, || commands().iter().any(|line| line.contains(up)));
            for _ in 0..20 {
                assert_eq!(waits_for_input(&live(), &stdin), Waiting::No, "{text}");
                std::thread::sleep(Duration::from_millis(2));
            }
            end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
            reap_all();
        }
    }

    fn unread_input_is_not_waited_for() {
        let stdin = with_pipe("exec sleep 30");
        write(&stdin, b"x").unwrap();
        assert_eq!(waits_for_input(&live(), &stdin), Waiting::No);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }
}
