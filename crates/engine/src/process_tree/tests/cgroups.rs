//! Cgroups as this machine has them.

use super::*;
use crate::command::Limits;
use crate::not_run::not_run;

fn cgroups(choice: CgroupChoice) -> Cgroups {
    Cgroups::detect(choice)
}

alone! {
    fn off_is_off() {
        let cgroups = cgroups(CgroupChoice::Off);
        assert_eq!(cgroups.support(), cgroup::Support::default());
        assert!(cgroups.describe().iter().all(|(_, place)| place.contains("only")));
    }

    fn members_join_and_are_killed() {
        let nonce = Nonce::random();
        each_cgroup(nonce, |name, cgroup| {
            let Some(cgroup) = cgroup else { return };
            let inside = start("sleep 30 & sleep 30; :", None, Some(cgroup));
            let added = start("sleep 31", None, None);
            cgroup.add(added).unwrap();
            until("all are in", || cgroup.members().len() == 4);
            assert!(cgroup.members().contains(&inside) && cgroup.members().contains(&added), "{name}");
            end(Scope::Tree, Signal::KILL, Duration::ZERO, Some(cgroup));
            until("all are gone", || live().is_empty());
        });
        for choice in [CgroupChoice::V1, CgroupChoice::V2] {
            assert_eq!(cgroups(choice).sweep(&[nonce].into()), 0);
        }
    }

    fn command_cannot_block_the_removal_of_its_cgroup() {
        let nonce = Nonce::random();
        each_cgroup(nonce, |name, cgroup| {
            let Some(directory) = cgroup.and_then(Cgroup::kill_directory) else { return };
            // It makes cgroups of its own, moves there, and freezes itself.
            let freeze = if name == "v1" { "echo FROZEN >freezer.state" } else { "echo 1 >cgroup.freeze" };
            let text = format!(
                "cd {}; mkdir -p a/b; cd a/b; echo $$ >cgroup.procs; sleep 30 & echo up >&3; {freeze}; wait",
                directory.path.display()
            );
            start(&format!("exec 3>/dev/null; {text}"), None, cgroup);
            until("it is frozen", || {
                let file = if name == "v1" { "a/b/freezer.state" } else { "a/b/cgroup.events" };
                let state = std::fs::read_to_string(directory.path.join(file)).unwrap_or_default();
                state.contains("FROZEN") || state.contains("frozen 1")
            });
            let receipt = end(Scope::Tree, Signal::KILL, Duration::ZERO, cgroup);
            assert_eq!((receipt.killed.len(), receipt.survivors.len()), (2, 0), "{name}: {receipt:?}");
        });
    }

    fn out_of_memory_is_counted() {
        let cgroups = cgroups(CgroupChoice::Auto);
        if !cgroups.support().memory {
            not_run("no memory limit through a cgroup");
            return;
        }
        let limits = Limits { memory_bytes: Some(48 << 20), ..Limits::default() };
        let mut cgroup = cgroups.create(Nonce::random(), "oom", &limits).unwrap();
        start("head -c 200M /dev/zero | tail >/dev/null", None, Some(&cgroup));
        assert_eq!(cgroup.oom_kills(), 0);
        until("it is out of memory", || cgroup.oom_kills() == 1);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, Some(&cgroup));
        until("the cgroup is removed", || cgroup.remove().is_ok());
        assert!(Cgroups::ambient_oom_kills().and_then(|counter| counter.read()).is_some());
    }

    fn limits_may_come_later() {
        let cgroups = cgroups(CgroupChoice::Auto);
        if !cgroups.support().processes || !cgroups.support().kill {
            not_run("no process limit through a cgroup");
            return;
        }
        let mut cgroup = cgroups.create(Nonce::random(), "later", &Limits::default()).unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let go = std::os::fd::AsRawFd::as_raw_fd(&read);
        start(&format!("read x <&{go}; (sleep 30 & sleep 30 & sleep 30 & wait) 2>/dev/null; :"), None, Some(&cgroup));
        until("it waits", || cgroup.members().len() == 1);
        cgroup.add_limits(&Limits { processes: Some(3), ..Limits::default() }).unwrap();
        rustix::io::write(&write, b"go\n").unwrap();
        until("as many as may are up", || live().len() == 3);
        end(Scope::Tree, Signal::KILL, Duration::ZERO, Some(&cgroup));
        until("the cgroup is removed", || cgroup.remove().is_ok());
    }

    fn leftovers_of_a_dead_supervisor_are_swept() {
        let nonce = Nonce::random();
        for choice in [CgroupChoice::V1, CgroupChoice::V2] {
            let cgroups = cgroups(choice);
            if !cgroups.support().kill {
                continue;
            }
            let cgroup = cgroups.create(nonce, "left", &Limits::default()).unwrap();
            start("sleep 30", None, Some(&cgroup));
            until("it is in", || cgroup.members().len() == 1);
            drop(cgroup);
            assert_eq!(cgroups.sweep(&[nonce].into()), 1);
            assert_eq!(cgroups.sweep(&[Nonce::random()].into()), 0);
            end(Scope::Tree, Signal::KILL, Duration::ZERO, None);
            until("it is swept", || cgroups.sweep(&[nonce].into()) == 0);
        }
    }
}
