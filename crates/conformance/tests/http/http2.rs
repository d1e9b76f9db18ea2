//! HTTP/2 on the same port, without TLS, with prior knowledge.

use sandcrab_conformance::cases::steps::fresh;
use serde_json::{Value, json};

use crate::support::ServerProcess;

#[tokio::test(flavor = "multi_thread")]
async fn requests_share_a_connection() {
    let server = ServerProcess::start(&[]).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = |path: &str| format!("http://{}{path}", server.target.authority());
    let token = server.target.token().unwrap().to_owned();
    let id = fresh("long");
    let long = client.post(url("/api/execute")).bearer_auth(&token);
    let long = tokio::spawn(long.json(&json!({"command": "sleep 300", "executionId": id})).send());
    for number in 0..50 {
        let request = client.post(url("/api/execute")).bearer_auth(&token);
        let answer = request.json(&json!({"command": format!("echo {number}")})).send().await.unwrap();
        assert_eq!(answer.version(), reqwest::Version::HTTP_2);
        assert_eq!(answer.json::<Value>().await.unwrap()["stdout"], format!("{number}\n"));
    }
    let refused = client.get(url("/api/ping")).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    // Such a request has no path.
    let connect =
        client.request(reqwest::Method::CONNECT, url("/")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(connect.status(), 405);
    assert_eq!(connect.json::<Value>().await.unwrap()["code"], "METHOD_NOT_ALLOWED");
    server.target.kill(&id).await;
    let ended: Value = long.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(ended["end"]["reason"], "killed");
    server.stop().await;
}
