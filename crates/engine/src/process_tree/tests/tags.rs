//! What keeps a tag, and what a walk sees.

use super::*;

alone! {
    fn everything_that_detaches_keeps_its_tag() {
        let tag = Tag::new(Nonce::random(), 77);
        let texts = [
            "exec sleep 30",
            "exec setsid sleep 30",
            "(setsid sleep 30 &)",
            "(sleep 30 &)",
            "exec env -i setsid sleep 30",
            "exec nohup sleep 30 2>/dev/null",
        ];
        for text in texts {
            start(text, Some(tag), None);
            until("it is up", || commands() == ["sleep 30"]);
            assert_eq!(live().into_iter().map(Tag::of).collect::<Vec<_>>(), [Some(tag)], "{text}");
            end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
            reap_all();
        }
    }

    fn a_number_is_not_used_again_while_a_process_carries_it() {
        let mut tags = Tags::with_last(Nonce::random(), 5);
        let own: Vec<_> = (0..3).map(|_| tags.next().unwrap()).collect();
        assert_eq!(own.iter().map(|tag| tag.command()).collect::<Vec<_>>(), [1, 2, 3]);
        start("exec setsid sleep 30", Some(own[1]), None);
        start("exec sleep 30", Some(tags.of_no_command()), None);
        // Of another supervisor: not in the way.
        start("exec sleep 30", Some(Tag::new(Nonce::random(), 3)), None);
        until("all are up", || commands() == ["sleep 30"; 3]);
        let numbers: Vec<_> = (0..10).map(|_| tags.next().unwrap().command()).collect();
        assert_eq!(numbers, [4, 5, 1, 3, 4, 5, 1, 3, 4, 5]);
        // Killing a command of a later round spares the daemon of an earlier one.
        let later = tags.next().unwrap();
        let scope = Scope::Command { tag: later, shell: getpid(), since: None, until: None };
        start("exec sleep 31", Some(later), None);
        until("it is up", || commands().contains(&"sleep 31".to_owned()));
        assert_eq!(end(scope, Signal::KILL, Duration::ZERO, None).killed.len(), 1);
        assert_eq!(commands(), ["sleep 30"; 3]);
        let scope = Scope::Command { tag: own[1], shell: getpid(), since: None, until: None };
        assert_eq!(end(scope, Signal::KILL, Duration::ZERO, None).killed.len(), 1);
        let numbers: Vec<_> = (0..8).map(|_| tags.next().unwrap().command()).collect();
        assert_eq!(numbers, [3, 4, 5, 1, 2, 3, 4, 5]);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    /// Any process can read the tags of others and copy one to itself.
    fn a_copied_tag_does_not_extend_the_scope_of_a_dead_supervisor() {
        let (dead, other) = (Nonce::random(), Nonce::random());
        let supervisor = start("printf sandcrab-super >/proc/$$/comm; sleep 61 & wait", None, None);
        let attacker = start("sleep 62 & wait", Some(Tag::new(dead, 1)), None);
        // What a supervisor that was started in the scope has left behind when it was killed.
        let left = start("exec sleep 63", Some(Tag::new(other, 3)), None);
        until("all are up", || commands().iter().filter(|command| command.starts_with("sleep")).count() == 3);
        let child_of = |parent| walk::children_of(parent)[0];
        let (victim, copying) = (child_of(supervisor), child_of(attacker));
        Tag::new(other, 1).set_on(victim).unwrap();
        Tag::new(other, 2).set_on(copying).unwrap();
        let receipt = end(Scope::Nonce(dead), Signal::KILL, Duration::ZERO, None);
        let killed: Vec<_> = receipt.killed.iter().map(|killed| killed.pid.cast_signed()).collect();
        let raw = |pid: Pid| pid.as_raw_nonzero().get();
        assert!(!killed.contains(&raw(victim)), "{receipt:?}");
        assert!([attacker, copying, left].iter().all(|pid| killed.contains(&raw(*pid))), "{receipt:?}");
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    fn a_number_is_not_used_again_while_its_command_has_processes_without_it() {
        let mut tags = Tags::with_last(Nonce::random(), 3);
        let first = tags.next().unwrap();
        let held = || [first].into_iter();
        let numbers: Vec<_> = (0..4).map(|_| tags.next_besides(held()).unwrap().command()).collect();
        assert_eq!(numbers, [2, 3, 2, 3]);
    }

    fn numbers_that_are_all_carried_are_an_error() {
        let mut tags = Tags::with_last(Nonce::random(), 2);
        for _ in 0..2 {
            start("exec sleep 30", tags.next(), None);
        }
        until("both are up", || commands() == ["sleep 30"; 2]);
        assert_eq!(tags.next(), None);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
        reap_all();
        assert_eq!(tags.next().map(Tag::command), Some(1));
    }

    fn a_lowered_hard_limit_is_an_error() {
        let shell = start("ulimit -R 1000000; exec sleep 30", None, None);
        until("it is up", || commands() == ["sleep 30"]);
        let error = Tag::new(Nonce::random(), 1).set_on(shell).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        assert_eq!(Tag::of(shell), None);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    fn children_are_seen_at_once() {
        let children = walk::ChildrenFile::open().unwrap();
        assert!(!children.any_besides([None, None]).unwrap());
        let first = start("sleep 30", None, None);
        assert!(children.any_besides([None, None]).unwrap());
        assert!(!children.any_besides([Some(first), None]).unwrap());
        start("(sleep 30 &)", None, None);
        assert!(children.any_besides([Some(first), None]).unwrap());
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
        reap_all();
        assert!(!children.any_besides([None, None]).unwrap());
    }

    fn children_of_every_thread_are_found() {
        let text = "import threading, subprocess, time
def start(): subprocess.Popen(['sleep', '30']); time.sleep(30)
threading.Thread(target=start).start()
threading.Thread(target=start).start()";
        start(&format!("exec python3 -c \"{text}\""), None, None);
        until("all are up", || commands().iter().filter(|line| *line == "sleep 30").count() == 2);
        assert_eq!(live().len(), 3);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    fn command_lines_are_bounded_text() {
        let long = "é".repeat(300);
        let pid = start_argv(&["/bin/bash", "-c", "sleep 30; :", &long], None, None);
        until("it is up", || commands().iter().any(|line| line == "sleep 30"));
        let line = walk::command_line(pid);
        assert!(line.starts_with("/bin/bash -c sleep 30; : éé"), "{line}");
        assert!(line.len() <= 256 && !line.contains('\u{fffd}'), "{line}");
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
        let zombie = walk::command_line(pid);
        assert!(zombie == "[bash]" || zombie == "[]", "{zombie}");
    }
}
