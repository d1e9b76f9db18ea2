//! Every operation of the API is reachable: `sdk/operations.json` names a method for each, and the method exists.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::stream;
use sandcrab_client::api::backup::{RestoreBackupRequest, UploadPartsRequest};
use sandcrab_client::api::execute::Variables;
use sandcrab_client::api::file::FolderFormat;
use sandcrab_client::api::search::ReplaceRequest;
use sandcrab_client::{
    AttachOptions, FollowOptions, OutputStream, Process, PtyOptions, PutOptions, Sandbox, Service, Session,
    Terminal,
};
use serde_json::Value;

struct Objects {
    sandbox: Sandbox,
    session: Session,
    process: Process,
    service: Service,
    terminal: Terminal,
}

/// Methods by name. The calls only need to compile.
macro_rules! methods {
    ($($object:ident . $method:ident ($($arg:expr),*);)+) => {
        const METHODS: &[&str] = &[$(concat!(stringify!($object), "::", stringify!($method))),+];

        #[expect(dead_code, reason = "it compiles if the methods exist")]
        fn compiles(objects: &Objects) {
            $(drop(objects.$object.$method($($arg),*));)+
        }
    };
}

fn nothing() -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::empty()
}

methods! {
    sandbox.chmod("f", "0644");
    sandbox.check_changes("d");
    sandbox.cleanup_completed_processes();
    sandbox.copy_file("a", "b");
    sandbox.create_backup("d");
    sandbox.create_session("s");
    sandbox.delete_backup("b");
    sandbox.delete_file("f");
    sandbox.delete_session("s");
    sandbox.events();
    sandbox.exec("true");
    sandbox.exec_stream("true");
    sandbox.exists("f");
    sandbox.expose_port(8080);
    sandbox.exposed_ports();
    sandbox.find("d");
    sandbox.find_terminal("t");
    sandbox.git_add("d");
    sandbox.git_branches("d");
    sandbox.git_checkout("https://example.com/r.git");
    sandbox.git_commit("message");
    sandbox.git_diff("d");
    sandbox.git_log("d");
    sandbox.git_pull("d");
    sandbox.git_push("d");
    sandbox.git_status("d");
    sandbox.health();
    sandbox.kill_all_processes();
    sandbox.list_backups();
    sandbox.list_files("d");
    sandbox.list_ports();
    sandbox.list_processes();
    sandbox.list_services();
    sandbox.list_sessions();
    sandbox.list_terminals();
    sandbox.metrics();
    sandbox.mkdir("d");
    sandbox.move_file("a", "b");
    sandbox.open_pty_socket("s", &PtyOptions::default());
    sandbox.open_socket();
    sandbox.openapi();
    sandbox.ping();
    sandbox.process("p");
    sandbox.put_file("f", PutOptions::default(), nothing());
    sandbox.read_bytes("f");
    sandbox.read_file("f");
    sandbox.read_file_stream("f");
    sandbox.read_folder("d", FolderFormat::Tar);
    sandbox.rename_file("a", "b");
    sandbox.replace(ReplaceRequest::default());
    sandbox.restore_backup(RestoreBackupRequest::default());
    sandbox.search("pattern");
    sandbox.service("s");
    sandbox.session("s");
    sandbox.set_env_vars(Variables::new());
    sandbox.start_process("true");
    sandbox.start_service("true");
    sandbox.stat("f");
    sandbox.terminal("bash");
    sandbox.unexpose_port(8080);
    sandbox.upload_backup_parts(UploadPartsRequest::default());
    sandbox.version();
    sandbox.watch("d");
    sandbox.watch_port(8080);
    sandbox.write_file("f", "content");
    sandbox.write_folder("d", nothing());
    session.fork(None);
    session.interrupt();
    session.reset(true);
    session.set_env_vars(Variables::new());
    process.kill();
    process.logs();
    process.output(OutputStream::Stdout, 0);
    process.recording();
    process.signal("SIGHUP");
    process.stream_logs();
    process.wait_for_exit(None);
    process.write("input");
    service.delete();
    service.health();
    service.logs();
    service.restart();
    service.stop();
    service.stream_output(&FollowOptions::default());
    terminal.connect(&AttachOptions::default());
    terminal.destroy();
    terminal.recording();
    terminal.resize(80, 24);
    terminal.screen();
    terminal.send("text");
    terminal.wait_for_text("text", None);
}

#[test]
fn every_operation_is_reachable() {
    let document: Value = serde_json::from_str(include_str!("../../../../../openapi.json")).unwrap();
    let table = include_str!("../../../../../sdk/operations.json");
    let table: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(table).unwrap();
    let routes = document["paths"].as_object().unwrap().values();
    let operations = routes.flat_map(|route| route.as_object().unwrap().values());
    let operations: BTreeSet<_> =
        operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    let unreachable: Vec<_> = operations
        .iter()
        .filter(|operation| {
            let method = table.get(**operation).and_then(|methods| methods.get("rust"));
            !method.is_some_and(|method| METHODS.contains(&method.to_lowercase().as_str()))
        })
        .collect();
    assert!(unreachable.is_empty(), "name a method that exists in sdk/operations.json for {unreachable:?}");
    let removed: Vec<_> = table.keys().filter(|name| !operations.contains(name.as_str())).collect();
    assert!(removed.is_empty(), "{removed:?} are no operations");
}
