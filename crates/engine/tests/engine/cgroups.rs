//! No cgroup stays behind, whether supervisors end as they should or not.

use std::collections::BTreeSet;
use std::time::Duration;

use sandcrab_engine::{CgroupUse, CommandSpec, LeftoverPolicy, Limits, SessionSpec};

use crate::support::{Place, Scene, Seen, cgroups_of, descendants, eventually, pretend_reboot};

async fn no_cgroup_stays_behind(cgroups: CgroupUse) {
    let scene = Scene::open_with(|config| config.cgroups = cgroups).await;
    if scene.lacks_cgroup("kill") {
        return;
    }
    let limits = Limits {
        memory_bytes: scene.has_cgroup("memory limit").then_some(1 << 30),
        processes: scene.has_cgroup("process limit").then_some(100),
        ..Limits::default()
    };
    // What runs on when the command has returned.
    let left = || CommandSpec::shell("sleep 60 &").limits(limits.clone());
    let Scene { engine, place } = scene;
    let mut nonces = BTreeSet::new();
    for number in 0..50 {
        nonces.extend(place.nonces());
        let spec =
            if number % 2 == 0 { CommandSpec::shell("/bin/true") } else { CommandSpec::argv(["true"]) };
        let spec = if number % 5 == 0 { spec.limits(limits.clone()) } else { spec };
        assert_eq!(engine.run(spec).await.unwrap().exit_code(), 0);
        if number % 10 == 0 {
            let session = engine.create_session(SessionSpec::new()).await.unwrap();
            nonces.extend(place.nonces());
            session.run(left()).await.unwrap();
            assert!(!cgroups_of(&nonces).is_empty(), "the session has no cgroup");
            session.run(CommandSpec::shell("/bin/true").limits(limits.clone())).await.unwrap();
            let refused =
                session.run(CommandSpec::shell("true").cwd("/nonexistent").limits(limits.clone())).await;
            assert!(refused.is_err());
            let refused = engine.run(CommandSpec::argv(["/nonexistent"]).limits(limits.clone())).await;
            assert!(refused.is_err());
            let running = session.start(left()).await.unwrap();
            running.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
            session.delete().await.unwrap();
            engine.run(left().leftovers(LeftoverPolicy::Kill)).await.unwrap();
        }
    }
    drop(engine);
    nonces.extend(place.nonces());
    eventually("all supervisors are gone", || place.own_processes().is_empty()).await;
    assert_eq!(cgroups_of(&nonces), [""; 0].map(std::path::PathBuf::from));
}

/// Everything that a container ran is gone, its supervisors included; its cgroups are not.
#[tokio::test]
async fn cgroups_of_an_earlier_container_are_removed() {
    let other = Scene::open().await;
    if !other.has_cgroup("kill") {
        return;
    }
    let other_session = other.engine.create_session(SessionSpec::new()).await.unwrap();
    let running = other_session.start(CommandSpec::shell("sleep 300")).await.unwrap();
    let others = other.place.nonces();
    let kept = cgroups_of(&others);
    assert!(!kept.is_empty());
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new()).await.unwrap();
    drop(session.start(CommandSpec::shell("sleep 300")).await.unwrap());
    drop(engine.start(CommandSpec::shell("sleep 300")).await.unwrap());
    drop((session, engine));
    let nonces = place.nonces();
    let mut all = place.own_processes();
    let below: Vec<_> = all.iter().flat_map(|seen| descendants(seen.pid)).filter_map(Seen::of).collect();
    // The zygote is the first to go: it would clean up.
    all.sort_by_key(|seen| seen.name() == "sandcrab-super");
    all.extend(below);
    all.iter().for_each(|seen| seen.kill());
    eventually("all are gone", || !all.iter().any(|seen| seen.is_alive())).await;
    assert!(!cgroups_of(&nonces).is_empty(), "there is nothing to be removed");
    pretend_reboot(&place);
    let engine = place.open().await;
    assert_eq!(cgroups_of(&nonces), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(cgroups_of(&others), kept, "those of a live engine were touched");
    drop(engine);
    running.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn no_cgroup_v1_stays_behind() {
    no_cgroup_stays_behind(CgroupUse::V1).await;
}

#[tokio::test]
async fn no_cgroup_v2_stays_behind() {
    no_cgroup_stays_behind(CgroupUse::V2).await;
}

#[tokio::test]
async fn no_cgroup_of_either_kind_stays_behind() {
    no_cgroup_stays_behind(CgroupUse::Auto).await;
}
