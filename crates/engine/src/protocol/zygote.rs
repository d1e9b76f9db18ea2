//! Between the engine and its zygote.

use minicbor::{Decode, Encode};

use super::{Bytes, Nonce, Refusal, Variable};
use crate::user::User;

/// From engine to zygote.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteRequest {
    /// What supervisors forked from now on start from. Answered by `Configured`.
    #[n(0)]
    Configure(#[n(0)] Box<Settings>),
    /// Fork a supervisor that listens under this nonce. Answered by `Forked` or `Refused`.
    #[n(1)]
    Fork(#[n(0)] Nonce),
}

/// Which way of driving bash to use.
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

/// Which cgroups to use.
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

/// What supervisors start from.
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
    /// The limit of open files that commands get (the engine raises its own).
    #[n(4)]
    pub(crate) open_files: Option<u64>,
    /// As whom commands run that name no user; the supervisor's own user if there is none.
    #[n(90)]
    pub(crate) user: Option<User>,
    /// What an engine has to know to be served by a supervisor.
    #[n(70)]
    pub(crate) key: Option<Bytes>,
}

/// From zygote to engine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteAnswer {
    #[n(0)]
    Configured(#[n(0)] Capabilities),
    #[n(1)]
    Forked(#[n(0)] u32),
    #[n(2)]
    Refused(#[n(0)] Refusal),
}

/// What this machine offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Capabilities {
    /// The path of bash, if there is one.
    #[n(0)]
    pub(crate) bash: Option<Bytes>,
    /// The driver in use: `loaded`, `portable`, or `none`.
    #[n(1)]
    pub(crate) driver: String,
    /// Why it is not the loaded one.
    #[n(2)]
    pub(crate) driver_reason: Option<String>,
    /// What cgroups are used for.
    #[n(3)]
    pub(crate) cgroups: String,
}
