//! A service has the ends and waits of a process.

use std::time::Duration;

use sandcrab_client::api::ErrorCode;
use sandcrab_client::api::service::ServiceState;

use super::sandbox;
use crate::support::TestServer;

#[tokio::test]
async fn services_are_awaited_and_ended() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let service = sandbox.start_service("echo ready; sleep 600").await.unwrap();
    let early = service.wait_for_exit(Some(Duration::from_millis(10))).await.unwrap_err();
    assert_eq!(early.code(), Some(ErrorCode::WaitTimeout));
    let process = service.current_process().await.unwrap();
    assert_eq!(process.wait_for_log("ready", None).await.unwrap().line, "ready");
    service.kill().await.unwrap();
    assert_eq!(service.wait_for_exit(None).await.unwrap().state, ServiceState::Stopped);
    let failing = sandbox.start_service("exit 3").await.unwrap();
    let failed = failing.wait_for_exit(None).await.unwrap();
    assert_eq!((failed.state, failed.executions[0].exit_code), (ServiceState::Failed, Some(3)));
}
