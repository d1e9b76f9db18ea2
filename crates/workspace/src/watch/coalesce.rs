//! Removes repeated changes of a batch.

use std::collections::HashMap;
use std::path::PathBuf;

use super::options::{ChangeKind, WatchEvent};

/// Removes what a reader need not know: a change of a path that repeats the last one, and changes before a resync.
pub(super) fn coalesce(batch: &mut Vec<WatchEvent>) {
    if let Some(resync) = batch.iter().rposition(|event| matches!(event, WatchEvent::Resync(_))) {
        batch.drain(..resync);
    }
    let mut last: HashMap<PathBuf, ChangeKind> = HashMap::new();
    batch.retain(|event| match event {
        WatchEvent::Resync(_) => true,
        WatchEvent::Change(change) => match last.get_mut(&change.path) {
            Some(kind) => std::mem::replace(kind, change.kind) != change.kind,
            None => last.insert(change.path.clone(), change.kind).is_none(),
        },
    });
}

#[cfg(test)]
mod tests {
    use super::super::options::{Change, ResyncReason};
    use super::*;

    fn change(kind: ChangeKind, path: &str) -> WatchEvent {
        WatchEvent::Change(Change { kind, path: path.into(), is_directory: false, cookie: 0 })
    }

    #[test]
    fn repeated_changes_are_one() {
        use ChangeKind::{Create, Delete, Modify};
        let events =
            [(Create, "a"), (Modify, "a"), (Modify, "b"), (Modify, "a"), (Delete, "a"), (Create, "a")];
        let mut batch: Vec<_> = events.iter().map(|&(kind, path)| change(kind, path)).collect();
        coalesce(&mut batch);
        let kept = [(Create, "a"), (Modify, "a"), (Modify, "b"), (Delete, "a"), (Create, "a")];
        assert_eq!(batch, kept.map(|(kind, path)| change(kind, path)));

        let resync = WatchEvent::Resync(ResyncReason::KernelOverflow);
        batch.extend([resync.clone(), change(Modify, "b")]);
        coalesce(&mut batch);
        assert_eq!(batch, [resync, change(Modify, "b")]);
    }
}
