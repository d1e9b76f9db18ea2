//! The ports on which programs listen, with their owners.

use sandcrab_engine::CommandSpec;

use crate::support::{BOTH, Scene, eventually_async};

/// Listens on a free port, prints it, and waits.
const LISTENER: &str = "import socket, sys, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); \
     print(s.getsockname()[1], flush=True); time.sleep(300)";

#[tokio::test]
async fn a_port_belongs_to_the_execution_that_listens() {
    let scene = Scene::open().await;
    for kind in BOTH {
        // As the command itself, and as what it leaves running.
        for end in ["", " & while [ ! -s port ]; do sleep 0.01; done"] {
            let folder = scene.folder(&format!("{kind:?}-{}", end.len()));
            let text = format!("cd {}; python3 -c \"{LISTENER}\" > port{end}", folder.display());
            let running = scene.start(kind, CommandSpec::shell(text)).await;
            let file = folder.join("port");
            let port = async || std::fs::read_to_string(&file).ok()?.trim().parse::<u16>().ok();
            eventually_async("it listens", async || port().await.is_some()).await;
            let port = port().await.unwrap();
            if !end.is_empty() {
                running.execution.wait().await.unwrap();
            }
            let ports = scene.engine.listening_ports().await;
            let found = ports.iter().find(|found| found.address.port() == port).unwrap();
            assert_eq!(found.execution.as_ref(), Some(running.execution.id()), "{kind:?} {end:?} {found:?}");
            assert!(found.pid.is_some() && found.address.ip().is_loopback(), "{found:?}");
            running.execution.kill(9, std::time::Duration::ZERO).await.unwrap();
            let ports = scene.engine.listening_ports().await;
            assert!(ports.iter().all(|found| found.address.port() != port), "{ports:?}");
        }
    }
}
