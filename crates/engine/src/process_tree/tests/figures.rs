//! How long things take. Run with `--ignored --nocapture`, in release mode.
#![expect(clippy::print_stderr, reason = "it is there to print")]

use super::*;
use crate::command::Limits;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let value = run();
    (begun.elapsed(), value)
}

fn kills(text: &str, count: usize, rounds: usize, cgroup: Option<&Cgroup>) -> Duration {
    median(
        (0..rounds)
            .map(|_| {
                start(text, None, cgroup);
                until("all are up", || {
                    commands().iter().filter(|line| line.starts_with("sleep")).count() == count
                });
                let (time, receipt) = time(|| end(Scope::Tree, Signal::KILL, Duration::ZERO, cgroup));
                assert!(receipt.killed.len() >= count && receipt.survivors.is_empty());
                reap_all();
                time
            })
            .collect(),
    )
}

alone! {
    #[ignore = "a measurement"]
    fn figures() {
        let nonce = Nonce::random();
        eprintln!("detect: {:?}", time(|| Cgroups::detect(CgroupChoice::Auto)).0);
        eprintln!("{:?}", Cgroups::detect(CgroupChoice::Auto).describe());
        each_cgroup(nonce, |name, cgroup| {
            eprintln!("{name}: kill of 1 sleeping {:?}", kills("exec sleep 30", 1, 31, cgroup));
            eprintln!("{name}: kill of 300 {:?}", kills("for i in {1..300}; do sleep 30 & done; wait", 300, 7, cgroup));
        });
        each_cgroup(nonce, |name, cgroup| {
            for (what, count) in [("a fork chain", 0), ("10 fork chains", 10), ("30 fork chains", 30)] {
                let text = format!(
                    "exec perl -e 'for (1..{count}) {{ last if !fork }} while (1) {{ exit if ++$n > 5000 or fork }}'"
                );
                let times = (0..15).map(|_| {
                    start(&text, None, cgroup);
                    until("it is up", is_busy);
                    let (time, receipt) = time(|| end(Scope::Tree, Signal::KILL, Duration::ZERO, cgroup));
                    assert_eq!(receipt.survivors, []);
                    reap_all();
                    time
                });
                let mut times = times.collect::<Vec<_>>();
                times.sort_unstable();
                eprintln!("{name}: kill of {what} {:?}, worst {:?}", times[7], times[14]);
            }
        });
        let all = Limits { memory_bytes: Some(1 << 30), processes: Some(100), ..Limits::default() };
        for (name, choice, limits) in [
            ("v1 freezer", CgroupChoice::V1, &Limits::default()),
            ("v2", CgroupChoice::V2, &Limits::default()),
            ("v1 freezer + memory + pids", CgroupChoice::V1, &all),
        ] {
            let cgroups = Cgroups::detect(choice);
            let mut times = [const { Vec::new() }; 4];
            for round in 0..50 {
                let (create, mut cgroup) = time(|| cgroups.create(nonce, &round.to_string(), limits).unwrap());
                let pid = start("exec sleep 30", None, None);
                let (add, ()) = time(|| cgroup.add(pid).unwrap());
                let (kill, ()) = time(|| drop(end(Scope::Tree, Signal::KILL, Duration::ZERO, Some(&cgroup))));
                until("it is gone", || live().is_empty());
                let (remove, ()) = time(|| while cgroup.remove().is_err() {});
                for (list, time) in times.iter_mut().zip([create, add, kill, remove]) {
                    list.push(time);
                }
            }
            eprintln!("{name}: create, add, kill, remove {:?}", times.map(median));
        }
        let pid = start("exec sleep 30", None, None);
        let tag = Tag::new(nonce, 1);
        eprintln!("tag set {:?}", median((0..1000).map(|_| time(|| tag.set_on(pid)).0).collect()));
        eprintln!("tag of {:?}", median((0..1000).map(|_| time(|| Tag::of(pid)).0).collect()));
        eprintln!("stat of another {:?}", median((0..1000).map(|_| time(|| crate::procfs::Stat::of(pid)).0).collect()));
        eprintln!("command line {:?}", median((0..1000).map(|_| time(|| walk::command_line(pid)).0).collect()));
        let children = walk::ChildrenFile::open().unwrap();
        eprintln!("any_besides {:?}", median((0..1000).map(|_| time(|| children.any_besides([Some(pid), None])).0).collect()));
        eprintln!("descendants of 1 {:?}", median((0..1000).map(|_| time(live).0).collect()));
        let tty = std::fs::File::open("/dev/null").unwrap();
        eprintln!("waits_for_input {:?}", median((0..1000).map(|_| time(|| waits_for_input(&[pid], &tty)).0).collect()));
        end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
    }
}
