//! Finds the known name that is most similar to an unknown one.

/// Returns the known name that is most similar to the given one, if any is similar enough.
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
        // Nearly all short names are similar to each other.
        let distance = match strsim::damerau_levenshtein(&given, &name) {
            0..=2 if given.len() < 4 => usize::MAX,
            distance => distance,
        };
        // `cmd` for `command`.
        if is_abbreviation(&given, &name) { distance.min(2) } else { distance }
    };
    let most = (given.len() / 3).max(2);
    let near = known.into_iter().map(|name| (distance(name), name)).filter(|(distance, _)| *distance <= most);
    // Of `path` and `pathBase64`, the latter is meant by `pathBase64s`, although both are its beginning.
    let edits = |name: &str| strsim::damerau_levenshtein(&given, &folded(name));
    near.min_by_key(|(distance, name)| (*distance, edits(name), name.len())).map(|(_, name)| name)
}

/// Returns whether `short` is an abbreviation: its letters occur in this order, beginning with the first
/// letter.
fn is_abbreviation(short: &str, name: &str) -> bool {
    let mut letters = name.chars();
    short.chars().next() == name.chars().next()
        && short.chars().all(|letter| letters.any(|other| other == letter))
}

/// Removes differences of style, as in `session_id` and `SessionID`.
fn folded(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .take(MAX_COMPARED)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Only the beginning of a longer name is compared.
const MAX_COMPARED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes() {
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

    #[test]
    fn of_two_beginnings_the_longer_one_is_meant() {
        for known in [["path", "pathBase64"], ["pathBase64", "path"]] {
            assert_eq!(nearest("pathBase64s", known), Some("pathBase64"));
            assert_eq!(nearest("paths", known), Some("path"));
        }
    }
}
