//! Stateless commands.

use sandcrab_engine::{CommandSpec, EndReason};

use crate::support::open;

#[tokio::test]
async fn a_command_runs_and_its_streams_are_apart() {
    let fixture = open().await;
    let outcome = fixture.engine.run(CommandSpec::shell("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!(outcome.stdout(), "out\n");
    assert_eq!(outcome.stderr(), "err\n");
    assert_eq!((outcome.end.reason, outcome.exit_code()), (EndReason::Exited, 3));
    println!("{:?} {:?}", fixture.engine.health(), outcome.end);
    let outcome = fixture.engine.run(CommandSpec::argv(["echo", "a  b"])).await.unwrap();
    assert_eq!(outcome.stdout(), "a  b\n");
    let session = fixture.engine.create_session(Default::default()).await.unwrap();
    let o = session.run(CommandSpec::shell("x=5; cd /tmp; echo hi")).await.unwrap();
    assert_eq!(o.stdout(), "hi\n");
    let o = session.run(CommandSpec::shell("echo $x $PWD; exit 4")).await.unwrap();
    println!("{:?}", o.end);
    assert_eq!(o.stdout(), "5 /tmp\n");
    let o = session.run(CommandSpec::shell("echo $x $PWD; kill -9 $$")).await.unwrap();
    println!("{:?}", o.end);
    assert_eq!(o.stdout(), "5 /tmp\n");
    let o = session.run(CommandSpec::shell("echo $x $PWD; sleep 30 & echo")).await.unwrap();
    println!("{:?}", o.end);
    println!("{:?}", session.delete().await.unwrap());
}
