//! Operating system commands: titles, colours and links.

use crate::Screen;
use crate::extras::{LINK_LIMIT, Link};

/// Longest title in bytes. Longer titles are cut.
const TITLE_LIMIT: usize = 4096;
/// Largest number of saved titles. The oldest are dropped.
const TITLES_LIMIT: usize = 10;

/// A title and the titles that were saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Title {
    pub(crate) text: String,
    pub(crate) saved: Vec<String>,
}

impl Title {
    fn set(&mut self, text: &str) {
        let end = (0..=text.len().min(TITLE_LIMIT)).rev().find(|&end| text.is_char_boundary(end));
        text[..end.unwrap_or(0)].clone_into(&mut self.text);
    }

    /// Memory of the texts in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.text.capacity() + self.saved.iter().map(String::capacity).sum::<usize>()
    }

    fn push(&mut self) {
        if self.saved.len() == TITLES_LIMIT {
            self.saved.remove(0);
        }
        self.saved.push(self.text.clone());
    }

    fn pop(&mut self) {
        if let Some(text) = self.saved.pop() {
            self.text = text;
        }
    }
}

impl Screen {
    /// An operating system command.
    pub(crate) fn operating_system_command(&mut self, number: u32, text: &str) {
        match number {
            0 => {
                self.title.set(text);
                self.icon.set(text);
            }
            1 => self.icon.set(text),
            2 => self.title.set(text),
            4 | 10..=12 | 104 | 110..=112 => self.color_command(number, text),
            8 => self.link_command(text),
            _ => return,
        }
        self.dirty = true;
    }

    /// OSC 8: begins or ends a link.
    fn link_command(&mut self, text: &str) {
        let Some((params, target)) = text.split_once(';') else { return };
        let params = params.trim();
        if target.is_empty() {
            if params.is_empty() {
                self.set_link(0);
            }
            return;
        }
        let id = params.split(':').find_map(|param| param.strip_prefix("id=")).unwrap_or_default();
        let index = if target.len() + id.len() > LINK_LIMIT {
            None
        } else {
            self.intern_link(Link { id: id.to_owned(), target: target.to_owned() })
        };
        self.set_link(index.unwrap_or(0));
    }

    fn set_link(&mut self, index: u32) {
        self.pen.extended.link = index;
        self.update_extended();
        self.refresh_pen();
    }

    /// XTWINOPS: only saving and restoring titles.
    pub(crate) fn window_operation(&mut self, operation: i32, which: i32) {
        let (icon, title) = (matches!(which, 0 | 1), matches!(which, 0 | 2));
        let (icon, title) = (icon.then_some(&mut self.icon), title.then_some(&mut self.title));
        for title in icon.into_iter().chain(title) {
            match operation {
                22 => title.push(),
                23 => title.pop(),
                _ => {}
            }
        }
    }
}
