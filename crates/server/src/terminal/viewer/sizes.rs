//! [`KnownSizes`]: the sizes of its terminal that a client has received.

use sandcrab_engine::TerminalSize;

/// Maximum number of sizes that are remembered until they are seen in the output.
const MAX_REQUESTED_SIZES: usize = 64;

/// The sizes that a client has received and requested.
#[derive(Debug, Default)]
pub(super) struct KnownSizes {
    /// The last size that the client has received.
    known: Option<TerminalSize>,
    /// Sizes that the client has requested and that were not seen in the output, the oldest first. One that the terminal
    /// already had may stay: it is not recorded again.
    requested: Vec<TerminalSize>,
}

impl KnownSizes {
    /// The last size that the client has received.
    pub(super) fn known(&self) -> Option<TerminalSize> {
        self.known
    }

    /// The client has been sent the size.
    pub(super) fn sent(&mut self, size: TerminalSize) {
        self.known = Some(size);
    }

    /// The client gets a repaint of this size. It does not have the sizes that it has requested then.
    pub(super) fn repaint(&mut self, size: TerminalSize) {
        self.requested.clear();
        self.sent(size);
    }

    /// The client has this size, and requests it.
    pub(super) fn request(&mut self, size: TerminalSize) {
        self.known = Some(size);
        self.requested.push(size);
        if self.requested.len() > MAX_REQUESTED_SIZES {
            self.requested.remove(0);
        }
    }

    /// The terminal has this size from here on in its output. Returns whether the client must be sent it. A size that it had
    /// itself, and has replaced by a newer one since, would change it back: the newer one follows.
    pub(super) fn seen(&mut self, size: TerminalSize) -> bool {
        if let Some(at) = self.requested.iter().rposition(|requested| *requested == size) {
            self.requested.drain(..=at);
            if !self.requested.is_empty() {
                return false;
            }
        }
        self.known.replace(size) != Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cols: u16) -> TerminalSize {
        TerminalSize { cols, rows: 24 }
    }

    fn client_with(cols: u16) -> KnownSizes {
        let mut sizes = KnownSizes::default();
        sizes.repaint(size(cols));
        sizes
    }

    #[test]
    fn a_client_is_not_told_its_own_sizes() {
        let mut sizes = client_with(80);
        // It changes its size faster than the terminal.
        (81..=83).for_each(|cols| sizes.request(size(cols)));
        assert_eq!([81, 82, 83].map(|cols| sizes.seen(size(cols))), [false; 3]);
        assert_eq!(sizes.known(), Some(size(83)));
        sizes.request(size(84));
        assert!(!sizes.seen(size(84)));
    }

    #[test]
    fn a_client_is_told_the_sizes_of_others() {
        let mut sizes = client_with(80);
        assert!(sizes.seen(size(90)) && !sizes.seen(size(90)));
        // Another client is in between: it ends with its own size, and is told both.
        sizes.request(size(81));
        assert!(sizes.seen(size(90)) && sizes.seen(size(81)));
        // A repaint has brought it to an older size.
        sizes.request(size(82));
        sizes.repaint(size(81));
        assert!(sizes.seen(size(82)));
    }

    #[test]
    fn a_size_that_is_not_recorded_again_hides_no_other() {
        let mut sizes = client_with(80);
        // Another client has requested the same before.
        sizes.request(size(81));
        sizes.request(size(81));
        assert!(sizes.seen(size(90)) && sizes.seen(size(81)) && sizes.seen(size(90)));
        (0..200).for_each(|_| sizes.request(size(85)));
        assert!(!sizes.seen(size(85)) && sizes.requested.is_empty());
    }
}
