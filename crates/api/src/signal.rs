//! Signal names and numbers.

/// The names of signals 1 to 31, the same on all supported Linux architectures.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Returns the number of a signal, given as `TERM`, `SIGTERM` or `15`, in upper or lower case.
///
/// ```
/// use sandcrab_api::signal;
/// assert_eq!(signal::number("sigterm"), Some(15));
/// assert_eq!(signal::number("32"), None);
/// ```
pub fn number(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().position(|known| *known == name).and_then(|at| i32::try_from(at + 1).ok());
    by_name.or_else(|| upper.parse().ok().filter(|number| (1..=31).contains(number)))
}

/// Returns the name of a signal with its prefix, such as `SIGTERM`, or `signal 34` for one without a name.
pub fn name(number: i32) -> String {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["TERM", "SIGTERM", "sigterm", "15", " 15 "] {
            assert_eq!(number(text), Some(15), "{text}");
        }
        for text in ["", "0", "32", "-1", "SIG", "SIGSIGTERM", "15.0", "NOPE"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(
            (name(31), name(9), name(0), name(34)),
            ("SIGSYS".into(), "SIGKILL".into(), "signal 0".into(), "signal 34".into())
        );
        for signal in 1..=31 {
            assert_eq!(number(&name(signal)), Some(signal));
        }
    }
}
