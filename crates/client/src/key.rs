//! Idempotency keys.

use std::hash::{BuildHasher, RandomState};

/// A unique key. The operating system seeds the hash states of the standard library; the key is not a secret.
pub(crate) fn new_key() -> String {
    let part = || RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()));
    format!("{:016x}{:016x}", part(), part())
}

/// An id that is short enough to be typed. 48 random bits, so that it is not the id of another one.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}-{}", &new_key()[..12])
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_differ() {
        let keys: std::collections::HashSet<_> = (0..1_000).map(|_| super::new_key()).collect();
        assert_eq!(keys.len(), 1_000);
    }
}
