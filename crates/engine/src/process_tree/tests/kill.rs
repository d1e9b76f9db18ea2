//! What is ended, however it hides, and what is not.

use super::*;

/// Ends a command twice over, as a whole tree and as a command of a session, with each kind of cgroup.
fn case(text: &str, ready: impl Fn(&[String]) -> bool) {
    let nonce = Nonce::random();
    each_cgroup(nonce, |name, cgroup| {
        for (signal, grace) in [(Signal::KILL, Duration::ZERO), (Signal::TERM, Duration::from_millis(50))] {
            whole_tree(text, &ready, (signal, grace), cgroup, name);
            one_command(text, &ready, (signal, grace), cgroup, name, nonce);
        }
    });
}

type SignalAndGrace = (Signal, Duration);

fn whole_tree(
    text: &str,
    ready: &impl Fn(&[String]) -> bool,
    how: SignalAndGrace,
    cgroup: Option<&Cgroup>,
    name: &str,
) {
    start(text, None, cgroup);
    until("the command is up", || ready(&commands()));
    let receipt = end(Scope::Tree, how.0, how.1, cgroup);
    assert_eq!(commands(), [""; 0], "{name} {how:?}");
    check(&receipt, how, name);
    reap_all();
}

fn one_command(
    text: &str,
    ready: &impl Fn(&[String]) -> bool,
    how: SignalAndGrace,
    cgroup: Option<&Cgroup>,
    name: &str,
    nonce: Nonce,
) {
    let tag = Tag::new(nonce, 2);
    let shell = start("sleep 61 & wait", Some(tag), None);
    let earlier = start("sleep 62 & sleep 62 & wait", Some(Tag::new(nonce, 1)), None);
    until("others are up", || count(&commands(), "sleep 6") == 3);
    // The shell carries the tag of the command it runs; what it started before does not.
    let before = live().into_iter().find(|pid| walk::command_line(*pid) == "sleep 61").unwrap();
    Tag::new(nonce, 1).set_on(before).unwrap();
    start(text, Some(tag), cgroup);
    let started = |commands: &[String]| {
        let own = commands.iter().filter(|line| !line.contains("sleep 6")).cloned().collect::<Vec<_>>();
        ready(&own)
    };
    until("the command is up", || started(&commands()));
    let scope = Scope::Command { tag, shell, since: None, until: None };
    let receipt = end(scope, how.0, how.1, cgroup);
    check(&receipt, how, name);
    assert_eq!(live().len(), 5, "{name} {how:?}: {:?}", commands());
    assert!(live().contains(&shell) && live().contains(&earlier));
    end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    reap_all();
}

fn check(receipt: &KillReceipt, how: SignalAndGrace, name: &str) {
    assert_eq!(receipt.survivors, [], "{name} {how:?}");
    // All processes of a fork chain that were listed may have exited by themselves before they could be named.
    assert!(!receipt.killed.is_empty() || is_busy(), "{name} {how:?} {:?}", commands());
    for killed in &receipt.killed {
        assert!(killed.signal == 9 || killed.signal == how.0.as_raw(), "{killed:?}");
        assert!(!killed.command.is_empty());
    }
}

fn count(commands: &[String], word: &str) -> usize {
    commands.iter().filter(|line| line.starts_with(word)).count()
}

/// Perl text that ends by itself after a while and after so many turns, in any case: if the test dies, no process
/// may reap the processes of a fork chain.
fn perl(text: &str) -> String {
    format!("exec perl -e '$end = time + 20; sub ok {{ exit if time > $end or ++$n > 5000 }} {text}'")
}

alone! {
    fn plain() {
        case("exec sleep 30", |all| all == ["sleep 30"]);
    }

    fn tree() {
        case("sleep 30 & sleep 30 & (sleep 30 & sleep 30 & wait) & wait", |all| count(all, "sleep 30") == 4);
    }

    fn own_session() {
        case("setsid sleep 30 & wait", |all| count(all, "sleep 30") == 1);
    }

    fn double_fork() {
        case("(sleep 30 &); sleep 30; :", |all| count(all, "sleep 30") == 2);
    }

    fn daemon() {
        case("(setsid bash -c \"sleep 30 & sleep 30; :\" &); sleep 30; :", |all| count(all, "sleep 30") == 3);
    }

    fn leader_gone() {
        case("(setsid sleep 30 &)", |all| all == ["sleep 30"]);
    }

    fn ignores_term() {
        case("trap '' TERM; sleep 30 & sleep 30 & wait; wait", |all| count(all, "sleep 30") == 2);
    }

    fn stopped() {
        case("kill -STOP $$", |all| all.len() == 1 && all[0].contains("STOP"));
    }

    fn nohup() {
        case("nohup sleep 30 >/dev/null 2>&1 & disown", |all| all == ["sleep 30"]);
    }

    fn environment_wiped() {
        case("env -i setsid sleep 30 & exit", |all| all == ["sleep 30"]);
    }

    fn storm() {
        case("for i in {1..300}; do sleep 30 & done; wait", |all| count(all, "sleep 30") == 300);
    }

    fn respawner() {
        let text = perl(
            "$SIG{TERM} = q(IGNORE); while (1) { ok; $p = fork; if (!$p) { sleep 30; exit } waitpid $p, 0 }",
        );
        case(&text, |all| count(all, "perl") == 2);
    }

    fn pair_that_respawns_each_other() {
        // The survivor starts another one.
        let text = perl(
            "$SIG{TERM} = $SIG{CHLD} = q(IGNORE);
             sub watch { my $p = shift; while (kill 0, $p) { ok; select undef, undef, undef, 0.001 } }
             while (1) { ok; $me = $$; $p = fork; if ($p) { watch($p) } else { watch($me) } }",
        );
        case(&text, |all| count(all, "perl") == 2);
    }

    fn fork_chain() {
        case(&perl("while (1) { ok; exit if fork }"), |_| is_busy());
    }

    fn many_fork_chains() {
        let text = perl("for (1..10) { last if !fork } while (1) { ok; exit if fork }");
        case(&text, |_| is_busy());
    }

    fn untagged_processes_are_told_by_their_parents_and_start() {
        let nonce = Nonce::random();
        let tag = Tag::new(nonce, 7);
        let shell = start("ulimit -S -R 1000000; (sleep 31 &); read x < <(sleep 62)", Some(Tag::new(nonce, 6)), None);
        until("an earlier command's are up", || count(&commands(), "sleep") == 2);
        std::thread::sleep(Duration::from_millis(20));
        let since = StartTime::now();
        start("bash -c 'ulimit -S -R 2000000; (sleep 32 &); sleep 33; :'; :", Some(tag), None);
        until("the command is up", || count(&commands(), "sleep") == 4);
        let receipt = end(Scope::Command { tag, shell, since: Some(since), until: None }, Signal::TERM, Duration::from_secs(1), None);
        let mut killed = receipt.killed.iter().filter(|k| k.command.starts_with("sleep")).map(|k| k.command.as_str()).collect::<Vec<_>>();
        killed.sort_unstable();
        assert_eq!(killed, ["sleep 32", "sleep 33"]);
        assert_eq!(count(&commands(), "sleep"), 2, "{:?}", commands());
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    fn an_ended_supervisors_processes_are_found_by_nonce() {
        let nonce = Nonce::random();
        let other = start("sleep 61", Some(Tag::new(Nonce::random(), 1)), None);
        start("(setsid sleep 30 &)", Some(Tag::new(nonce, 1)), None);
        start("setsid sleep 30", Some(Tag::new(nonce, 2)), None);
        until("all are up", || commands().iter().filter(|line| *line == "sleep 30").count() == 2 && live().len() == 3);
        assert_eq!(walk::all_with_nonce(nonce).len(), 2);
        Tag::new(nonce, 3).set_on(getpid()).unwrap();
        let receipt = end(Scope::Nonce(nonce), Signal::TERM, Duration::from_secs(5), None);
        assert_eq!(receipt.killed.iter().map(|killed| killed.signal).collect::<Vec<_>>(), [15, 15]);
        assert_eq!(live(), [other]);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }

    fn receipt_lists_processes_and_signals() {
        start("trap '' TERM; sleep 30 & (trap - TERM; exec sleep 31) & wait", None, None);
        until("all are up", || count(&commands(), "sleep") == 2);
        let mut receipt = end(Scope::Tree, Signal::TERM, Duration::from_millis(50), None);
        receipt.killed.sort_by(|a, b| a.command.cmp(&b.command));
        let told = receipt.killed.iter().map(|killed| (killed.command.as_str(), killed.signal)).collect::<Vec<_>>();
        assert_eq!(told[1..], [("sleep 30", 9), ("sleep 31", 15)]);
        assert_eq!(told[0].1, 9);
        assert!(told[0].0.starts_with("/bin/bash -c trap"), "{told:?}");
        // Nothing there is no failure.
        assert_eq!(end(Scope::Tree, Signal::TERM, Duration::from_secs(1), None), KillReceipt::default());
    }

    fn a_handler_may_use_the_grace_period() {
        start("trap 'sleep 0.05; exit 3' TERM; sleep 30 & wait", None, None);
        until("all are up", || count(&commands(), "sleep 30") == 1);
        let receipt = end(Scope::Tree, Signal::TERM, Duration::from_secs(10), None);
        assert!(receipt.killed.iter().all(|killed| killed.signal == 15), "{receipt:?}");
        assert_eq!(live(), []);
    }
}
