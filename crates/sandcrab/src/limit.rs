//! [`LimitArgs`]: `--limit memory=512m,pids=100`.

use clap::Args;
use sandcrab_api::execute::Limits;

use crate::failure::Failure;
use crate::quantity::{ByteSize, DurationArg};

/// Resource limits of a command.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct LimitArgs {
    /// Set resource limits: memory=SIZE (whole process tree with a cgroup, else each process), cpu=DURATION (CPU time of
    /// each process), pids=N (processes of the tree with a cgroup, else all processes of the user), files=N (open files of
    /// each process), file-size=SIZE (each file written), output=SIZE (both streams; reaching it ends the command). Sizes
    /// are in bytes, or with a unit, as in 64MiB. Can be repeated.
    #[arg(long = "limit", value_name = "NAME=VALUE[,...]", value_delimiter = ',', value_parser = parse)]
    limits: Vec<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    name: Name,
    value: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Memory,
    Cpu,
    Pids,
    Files,
    FileSize,
    Output,
}

const NAMES: [(&str, Name); 6] = [
    ("memory", Name::Memory),
    ("cpu", Name::Cpu),
    ("pids", Name::Pids),
    ("files", Name::Files),
    ("file-size", Name::FileSize),
    ("output", Name::Output),
];

fn parse(text: &str) -> Result<Limit, String> {
    let known = || NAMES.map(|(name, _)| name).join(", ");
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE; names: {}", known()))?;
    let found = NAMES.iter().find(|(known, _)| *known == name);
    let (_, name) = *found.ok_or_else(|| format!("unknown limit {name:?}; limits: {}", known()))?;
    let value = match name {
        Name::Memory | Name::FileSize | Name::Output => value.parse::<ByteSize>()?.0,
        Name::Cpu => seconds(value)?,
        Name::Pids | Name::Files => value.parse().map_err(|_| format!("{value:?} is not a whole number"))?,
    };
    Ok(Limit { name, value })
}

/// CPU time: `10` and `10s` are ten seconds. The kernel counts whole seconds.
fn seconds(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let DurationArg(duration) = text.parse::<DurationArg>()?;
    if duration.subsec_nanos() > 0 {
        return Err(format!("{text:?} is not a whole number of seconds"));
    }
    Ok(duration.as_secs())
}

impl LimitArgs {
    /// The limits of a request, `None` without any.
    pub(crate) fn limits(&self) -> Result<Option<Limits>, Failure> {
        let mut limits = Limits::default();
        for Limit { name, value } in &self.limits {
            let field = match name {
                Name::Memory => &mut limits.memory_bytes,
                Name::Cpu => &mut limits.cpu_seconds,
                Name::Pids => &mut limits.processes,
                Name::Files => &mut limits.open_files,
                Name::FileSize => &mut limits.file_size_bytes,
                Name::Output => &mut limits.output_bytes,
            };
            if field.replace(*value).is_some() {
                return Err(Failure::usage("--limit sets the same limit twice", "give each limit once"));
            }
        }
        Ok(Some(limits).filter(|limits| *limits != Limits::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed() {
        let value = |text: &str| parse(text).map(|limit| limit.value);
        assert_eq!(value("memory=512m"), Ok(512 << 20));
        assert_eq!(value("file-size=1g"), Ok(1 << 30));
        assert_eq!(value("output=10KiB"), Ok(10 << 10));
        assert_eq!((value("cpu=10"), value("cpu=2m")), (Ok(10), Ok(120)));
        assert_eq!((value("pids=100"), value("files=64")), (Ok(100), Ok(64)));
        for text in ["memory", "memory=", "memory=lots", "cpu=500ms", "pids=-1", "pids=1k", "disk=1g", "=1"] {
            assert!(value(text).is_err(), "{text}");
        }
        assert!(value("mem=1g").unwrap_err().contains("memory, cpu, pids"), "{:?}", value("mem=1g"));
    }

    #[test]
    fn a_limit_can_be_set_once() {
        let args =
            |texts: &[&str]| LimitArgs { limits: texts.iter().map(|text| parse(text).unwrap()).collect() };
        let limits = args(&["memory=1m", "pids=2"]).limits().unwrap().unwrap();
        assert_eq!(
            (limits.memory_bytes, limits.processes, limits.output_bytes),
            (Some(1 << 20), Some(2), None)
        );
        assert!(args(&["pids=1", "pids=2"]).limits().is_err());
        assert!(args(&[]).limits().unwrap().is_none());
    }
}
