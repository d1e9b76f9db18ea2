//! [`KnownSizes`]: which sizes of its terminal a client knows.

use sandcrab_engine::TerminalSize;

/// Maximum number of sizes that are remembered until they are seen in the output.
const MAX_ASKED_SIZES: usize = 64;

/// What a client knows of the size of its terminal.
#[derive(Debug, Default)]
pub(super) struct KnownSizes {
    /// The size of the terminal as the client knows it.
    known: Option<TerminalSize>,
    /// Sizes that the client has asked for and that were not seen in the output, the oldest first. One that the terminal
    /// already had may stay: it is not recorded again.
    asked: Vec<TerminalSize>,
}

impl KnownSizes {
    /// The size of the terminal as the client knows it.
    pub(super) fn known(&self) -> Option<TerminalSize> {
        self.known
    }

    /// The client is told the size.
    pub(super) fn tell(&mut self, size: TerminalSize) {
        self.known = Some(size);
    }

    /// The client gets a repaint of this size. It does not have the sizes that it has asked for then.
    pub(super) fn repaint(&mut self, size: TerminalSize) {
        self.asked.clear();
        self.tell(size);
    }

    /// The client has this size, and asks for it.
    pub(super) fn ask(&mut self, size: TerminalSize) {
        self.known = Some(size);
        self.asked.push(size);
        if self.asked.len() > MAX_ASKED_SIZES {
            self.asked.remove(0);
        }
    }

    /// The terminal has this size from here on in its output. Returns whether the client must be told. A size that it had
    /// itself, and has replaced by a newer one since, would change it back: the newer one follows.
    pub(super) fn seen(&mut self, size: TerminalSize) -> bool {
        if let Some(at) = self.asked.iter().rposition(|asked| *asked == size) {
            self.asked.drain(..=at);
            if !self.asked.is_empty() {
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

    fn knows(cols: u16) -> KnownSizes {
        let mut sizes = KnownSizes::default();
        sizes.repaint(size(cols));
        sizes
    }

    #[test]
    fn a_client_is_not_told_its_own_sizes() {
        let mut sizes = knows(80);
        // It changes its size faster than the terminal.
        (81..=83).for_each(|cols| sizes.ask(size(cols)));
        assert_eq!([81, 82, 83].map(|cols| sizes.seen(size(cols))), [false; 3]);
        assert_eq!(sizes.known(), Some(size(83)));
        sizes.ask(size(84));
        assert!(!sizes.seen(size(84)));
    }

    #[test]
    fn a_client_is_told_the_sizes_of_others() {
        let mut sizes = knows(80);
        assert!(sizes.seen(size(90)) && !sizes.seen(size(90)));
        // Another client is in between: it ends with its own size, and is told both.
        sizes.ask(size(81));
        assert!(sizes.seen(size(90)) && sizes.seen(size(81)));
        // A repaint has brought it to an older size.
        sizes.ask(size(82));
        sizes.repaint(size(81));
        assert!(sizes.seen(size(82)));
    }

    #[test]
    fn a_size_that_is_not_recorded_again_hides_no_other() {
        let mut sizes = knows(80);
        // Another client has asked for the same before.
        sizes.ask(size(81));
        sizes.ask(size(81));
        assert!(sizes.seen(size(90)) && sizes.seen(size(81)) && sizes.seen(size(90)));
        (0..200).for_each(|_| sizes.ask(size(85)));
        assert!(!sizes.seen(size(85)) && sizes.asked.is_empty());
    }
}
