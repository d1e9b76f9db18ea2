//! The TCP ports on which programs listen, with their owners.

use std::collections::HashMap;
use std::net::SocketAddr;

use rustix::process::Pid;

use super::link::lock;
use super::tasks::blocking;
use super::{Engine, Execution};
use crate::ExecutionId;
use crate::process_tree::{Nonce, Tag};
use crate::procfs::{self, ListeningSocket};

/// A TCP socket on which a program listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningPort {
    /// Its address and port.
    pub address: SocketAddr,
    /// The inode of the socket: identifies it while it is open.
    pub socket: u64,
    /// A process that has the socket open: the one with the lowest id. `None` if the engine may not see it.
    pub pid: Option<u32>,
    /// The execution of this process, if it belongs to one.
    pub execution: Option<ExecutionId>,
}

/// A socket, a process that has it open, and the supervisor of that process.
struct Owned {
    socket: ListeningSocket,
    owner: Option<(Pid, Option<Nonce>)>,
}

impl Engine {
    /// Lists the TCP ports on which programs of this machine, or container, listen, by port and address. Reads the open
    /// files of processes until each socket has an owner. Several sockets may share an address (`SO_REUSEPORT`).
    pub async fn listening_ports(&self) -> Vec<ListeningPort> {
        let (send, found) = tokio::sync::oneshot::channel();
        blocking(move || drop(send.send(sockets()))).await;
        let found = found.await.unwrap_or_default();
        let mut of_pid = HashMap::new();
        let supervisors: Vec<_> = found.iter().filter_map(|owned| owned.owner?.1).collect();
        for execution in self.executions_of(&supervisors) {
            // One that ends meanwhile has no processes.
            for pid in execution.pids().await {
                of_pid.insert(pid, execution.id().clone());
            }
        }
        let mut ports: Vec<_> = found
            .into_iter()
            .map(|Owned { socket, owner }| {
                let pid = owner.map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs());
                let execution = pid.and_then(|pid| of_pid.get(&pid).cloned());
                ListeningPort { address: socket.address, socket: socket.inode, pid, execution }
            })
            .collect();
        ports.sort_by_key(|port| (port.address.port(), port.address.ip(), port.pid));
        ports
    }

    /// Lists the listening TCP sockets by address and inode, without their owners. Blocks while the kernel writes its
    /// table, which has a line per connection.
    pub fn listening_sockets() -> Vec<(SocketAddr, u64)> {
        procfs::listening_sockets().into_iter().map(|socket| (socket.address, socket.inode)).collect()
    }

    /// The executions of these supervisors that may have processes.
    fn executions_of(&self, supervisors: &[Nonce]) -> Vec<Execution> {
        let is_of = |execution: &Execution| {
            let link = lock(&execution.tracked.link);
            link.as_ref().is_some_and(|link| supervisors.iter().any(|nonce| nonce.value() == link.nonce))
        };
        let may_run =
            |execution: &Execution| execution.tracked.end().is_none() || execution.tracked.has_leftovers();
        self.executions().into_iter().filter(|execution| may_run(execution) && is_of(execution)).collect()
    }
}

/// All listening sockets, with an owner each.
fn sockets() -> Vec<Owned> {
    let mut found: Vec<_> =
        procfs::listening_sockets().into_iter().map(|socket| Owned { socket, owner: None }).collect();
    let mut without_owner = found.len();
    let mut pids = procfs::ids_in("/proc");
    pids.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
    for pid in pids {
        if without_owner == 0 {
            break;
        }
        for inode in procfs::sockets_of(pid) {
            let of_inode =
                found.iter_mut().filter(|owned| owned.owner.is_none() && owned.socket.inode == inode);
            for owned in of_inode {
                owned.owner = Some((pid, Tag::of(pid).map(Tag::nonce)));
                without_owner -= 1;
            }
        }
    }
    found
}
