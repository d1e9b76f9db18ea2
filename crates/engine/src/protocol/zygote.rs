//! Messages between the engine and its zygote.

use minicbor::{Decode, Encode};

use super::{Bytes, Nonce, Refusal, Variable};
use crate::user::User;

/// From engine to zygote.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteRequest {
    /// The settings of supervisors forked from now on. Answered by `Configured`.
    #[n(0)]
    Configure(#[n(0)] Box<Settings>),
    /// Fork a supervisor that listens under this nonce. Answered by `Forked` or `Refused`.
    #[n(1)]
    Fork(#[n(0)] Nonce),
}

/// The driver of bash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum DriverChoice {
    #[n(0)]
    Auto,
    #[n(1)]
    Loaded,
    #[n(2)]
    Portable,
}

/// Use of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum CgroupSetting {
    #[n(0)]
    Auto,
    #[n(1)]
    Off,
    #[n(2)]
    V1,
    #[n(3)]
    V2,
}

/// The settings of supervisors.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Settings {
    #[n(0)]
    pub(crate) env: Vec<Variable>,
    #[n(1)]
    pub(crate) cwd: Bytes,
    #[n(2)]
    pub(crate) driver: DriverChoice,
    #[n(3)]
    pub(crate) cgroups: CgroupSetting,
    /// The limit of open files of commands (the engine raises its own).
    #[n(4)]
    pub(crate) open_files: Option<u64>,
    /// Default user of commands; the supervisor's own user if `None`.
    #[n(90)]
    pub(crate) user: Option<User>,
    /// The key that an engine must present to a supervisor.
    #[n(70)]
    pub(crate) key: Option<Bytes>,
    /// The directory to remove when the engine has exited.
    #[n(91)]
    pub(crate) temporary: Option<Bytes>,
}

/// From zygote to engine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteReply {
    #[n(0)]
    Configured(#[n(0)] Capabilities),
    #[n(1)]
    Forked(#[n(0)] u32),
    #[n(2)]
    Refused(#[n(0)] Refusal),
}

/// Capabilities of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Capabilities {
    /// The path of bash, if installed.
    #[n(0)]
    pub(crate) bash: Option<Bytes>,
    /// The driver in use: `loaded`, `portable`, or `none`.
    #[n(1)]
    pub(crate) driver: String,
    /// Reason why it is not the loaded driver.
    #[n(2)]
    pub(crate) driver_reason: Option<String>,
    /// Use of cgroups.
    #[n(3)]
    pub(crate) cgroups: String,
}
