//! What is below a process.

use super::*;

alone! {
    fn ancestors_say_what_is_below() {
        let me = getpid();
        let text = "sleep 60 & (sleep 60 & setsid bash -c 'sleep 60; :' & wait) & (sleep 60 &); wait";
        let shell = start(text, None, None);
        until("all have started", || commands().iter().filter(|command| *command == "sleep 60").count() == 4);
        let all = live();
        assert!(all.iter().all(|pid| walk::is_below(me, *pid)), "{:?}", commands());
        // One of the four has lost its parent, and is not below the shell.
        let of_shell: Vec<_> = walk::descendants(shell);
        let below = all.iter().filter(|pid| walk::is_below(shell, **pid));
        assert_eq!(below.count(), of_shell.len());
        assert_eq!(of_shell.len(), all.len() - 2);
        let others = [Some(me), rustix::process::getppid(), Pid::from_raw(1), Pid::from_raw(i32::MAX)];
        assert!(others.into_iter().flatten().all(|pid| !walk::is_below(me, pid)));
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
        assert!(all.iter().all(|pid| !walk::is_below(me, *pid)), "they have ended");
    }

    /// However long it takes: a scan of hundreds of processes takes milliseconds.
    fn a_slow_scan_is_complete() {
        start("sleep 60", None, None);
        let mut seen = 0;
        let is_complete = walk::walk(getpid(), &mut |pid| {
            seen += 1;
            std::thread::sleep(Duration::from_millis(20));
            crate::procfs::Stat::of(pid)
        });
        assert_eq!((is_complete, seen), (true, 1));
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    /// One scan finds one of each, however many scopes there are.
    fn each_scope_has_one_or_none() {
        let nonce = Nonce::random();
        let me = getpid();
        let scope = |tag| Scope::Command { tag, shell: me, since: None, until: None };
        let tags: Vec<_> = (1..20).map(|number| Tag::new(nonce, number)).collect();
        let started: Vec<_> = tags.iter().map(|tag| start("sleep 60", Some(*tag), None)).collect();
        let none = Tag::new(nonce, 50);
        let scopes: Vec<_> = tags.iter().copied().chain([none]).map(scope).collect();
        let mut expected: Vec<_> = started.into_iter().map(Some).collect();
        expected.push(None);
        assert_eq!(one_of_each(&scopes), expected);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
        assert_eq!(one_of_each(&scopes), vec![None; 20]);
    }
}
