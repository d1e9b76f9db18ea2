//! The name that a mistaken one was probably meant to be.

/// The known name that is nearest to a given one, if one is near.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = folded(given);
    if given.is_empty() {
        return None;
    }
    let distance = |name: &str| {
        let name = folded(name);
        // `timeout` for `timeoutMs`, `environment` for `env`.
        if name.starts_with(&given) || given.starts_with(&name) {
            return 1;
        }
        // `cmd` for `command`.
        if is_abbreviation(&given, &name) {
            return 2;
        }
        // Of short names nearly all are near.
        match strsim::damerau_levenshtein(&given, &name) {
            0..=2 if given.len() < 4 => usize::MAX,
            distance => distance,
        }
    };
    let most = (given.len() / 3).max(2);
    let near = known.into_iter().map(|name| (distance(name), name)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, name)| (*distance, name.len())).map(|(_, name)| name)
}

/// Whether the letters of one come in this order in the other, the first at its beginning.
fn is_abbreviation(short: &str, name: &str) -> bool {
    let mut letters = name.chars();
    short.chars().next() == name.chars().next()
        && short.chars().all(|letter| letters.any(|other| other == letter))
}

/// Without what people write differently: `session_id`, `SessionID`.
fn folded(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .take(MAX_COMPARED)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Of a longer name the beginning is compared.
const MAX_COMPARED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_that_are_made() {
        let known = ["command", "cwd", "env", "sessionId", "timeoutMs", "idleTimeoutMs", "user"];
        for (given, meant) in [
            ("timeout", Some("timeoutMs")),
            ("timeoutms", Some("timeoutMs")),
            ("idleTimeout", Some("idleTimeoutMs")),
            ("session_id", Some("sessionId")),
            ("session", Some("sessionId")),
            ("comand", Some("command")),
            ("environment", Some("env")),
            ("cmd", Some("command")),
            ("path", None),
            ("", None),
            ("☃", None),
        ] {
            assert_eq!(nearest(given, known), meant, "{given}");
        }
    }
}
