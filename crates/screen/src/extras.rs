//! What few cells have: texts of several code points, underline styles and links. Cells refer to it by index.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::cell::Extended;

/// Largest number of code points in one cell. Further combining characters are dropped.
pub(crate) const CELL_TEXT_LIMIT: usize = 32;
/// Largest number of bytes of all texts of several code points.
const TEXTS_LIMIT: usize = 4 << 20;
/// Longest link target in bytes. Longer links are dropped.
pub(crate) const LINK_LIMIT: usize = 4096;
/// Largest number of bytes of all links.
const LINKS_LIMIT: usize = 1 << 20;
/// Largest number of bytes of all combinations of underline style, underline colour and link. Beyond that, cells lose the
/// colour, then the link.
const EXTENDED_LIMIT: usize = 4 << 20;
/// Smallest amount after which garbage is collected.
const SMALLEST_GARBAGE: usize = 16 << 10;

/// A hyperlink.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// The `id` parameter, or empty.
    pub(crate) id: String,
    pub(crate) target: String,
}

/// A table that holds each value once, and gives it an index from 1 on.
#[derive(Clone, Debug)]
struct Table<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
    indices: HashMap<T, u32>,
    /// Sum of the costs of the values, at most `limit`.
    cost: usize,
    limit: usize,
    /// Sum of the costs of the values that did not fit since garbage was collected.
    refused: usize,
    /// Cost, with that of refused values, at which garbage is collected.
    threshold: usize,
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn new(limit: usize) -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
            indices: HashMap::new(),
            cost: 0,
            limit,
            refused: 0,
            threshold: SMALLEST_GARBAGE,
        }
    }

    /// Whether garbage should be collected before the next value is added.
    fn is_due(&self) -> bool {
        self.cost + self.refused >= self.threshold
    }

    /// Memory besides that of the values' own allocations.
    fn memory(&self) -> usize {
        // A map uses at most seven eighths of its places, and one byte more for each.
        let places = self.indices.capacity() / 7 * 8;
        self.values.capacity() * size_of::<Option<T>>()
            + self.free.capacity() * size_of::<u32>()
            + places * (size_of::<(T, u32)>() + 1)
    }

    fn get(&self, index: u32) -> Option<&T> {
        self.values.get(index.checked_sub(1)? as usize)?.as_ref()
    }

    /// Adds a value; `None` if the table has reached its limit.
    fn add(&mut self, value: T, cost: usize) -> Option<u32> {
        if self.cost + cost > self.limit {
            self.refused += cost;
            return None;
        }
        Some(self.insert(value, cost))
    }

    fn insert(&mut self, value: T, cost: usize) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len()).unwrap_or(u32::MAX)
        });
        self.values[index as usize - 1] = Some(value.clone());
        self.indices.insert(value, index);
        self.cost += cost;
        index
    }

    /// Removes the values that are not marked. `marks` has a flag for each index.
    fn sweep(&mut self, marks: &[bool], cost: impl Fn(&T) -> usize) {
        for (at, place) in self.values.iter_mut().enumerate() {
            if place.is_some() && !marks.get(at + 1).copied().unwrap_or(false) {
                if let Some(value) = place.take() {
                    self.cost -= cost(&value);
                    self.indices.remove(&value);
                }
                self.free.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
            }
        }
        // Before the limit is reached, if the values in use leave room: later ones must not be refused for garbage.
        self.threshold = self.cost + self.cost.clamp(SMALLEST_GARBAGE, self.limit / 4);
        self.refused = 0;
    }
}

/// Which entries cells refer to.
#[derive(Debug)]
pub(crate) struct Marks {
    texts: Vec<bool>,
    extended: Vec<bool>,
}

impl Marks {
    pub(crate) fn text(&mut self, index: u32) {
        if let Some(mark) = self.texts.get_mut(index as usize) {
            *mark = true;
        }
    }

    pub(crate) fn extended(&mut self, index: u32) {
        if let Some(mark) = self.extended.get_mut(index as usize) {
            *mark = true;
        }
    }
}

/// The tables.
#[derive(Clone, Debug)]
pub(crate) struct Extras {
    texts: Table<Arc<str>>,
    extended: Table<Extended>,
    links: Table<Arc<Link>>,
}

/// An entry of the table of extended attributes counts as this many bytes: its value, and its place in the map.
const EXTENDED_COST: usize = 64;

fn text_cost(text: &Arc<str>) -> usize {
    text.len() + 32
}

fn link_cost(link: &Arc<Link>) -> usize {
    link.id.len() + link.target.len() + 64
}

impl Extras {
    pub(crate) fn new() -> Self {
        Self {
            texts: Table::new(TEXTS_LIMIT),
            extended: Table::new(EXTENDED_LIMIT),
            links: Table::new(LINKS_LIMIT),
        }
    }

    /// Memory of the tables in bytes.
    pub(crate) fn memory(&self) -> usize {
        let entries = self.texts.memory() + self.extended.memory() + self.links.memory();
        // The costs of texts and links include their allocations.
        entries + self.texts.cost + self.links.cost + self.links.indices.len() * size_of::<Link>()
    }

    /// Whether unused entries should be removed before the next one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.texts.is_due() || self.extended.is_due() || self.links.is_due()
    }

    pub(crate) fn text(&self, index: u32) -> &str {
        self.texts.get(index).map_or("", |text| text)
    }

    pub(crate) fn find_text(&self, text: &str) -> Option<u32> {
        self.texts.indices.get(text).copied()
    }

    /// Adds a text; `None` if the table has reached its limit.
    pub(crate) fn add_text(&mut self, text: &str) -> Option<u32> {
        let text = Arc::from(text);
        let cost = text_cost(&text);
        self.texts.add(text, cost)
    }

    pub(crate) fn extended(&self, index: u32) -> Extended {
        self.extended.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn find_extended(&self, value: Extended) -> Option<u32> {
        if value == Extended::default() { Some(0) } else { self.extended.indices.get(&value).copied() }
    }

    /// Adds extended attributes; those without what does not fit, if the table has reached its limit.
    pub(crate) fn add_extended(&mut self, value: Extended) -> u32 {
        let plain = Extended { color: 0, ..value };
        let style = Extended { link: 0, ..plain };
        self.extended
            .add(value, EXTENDED_COST)
            .or_else(|| self.find_extended(plain))
            .or_else(|| self.extended.add(plain, EXTENDED_COST))
            .or_else(|| self.find_extended(style))
            // There are so few styles that they need no limit.
            .unwrap_or_else(|| self.extended.insert(style, EXTENDED_COST))
    }

    pub(crate) fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(index).map(|link| &**link)
    }

    pub(crate) fn find_link(&self, link: &Link) -> Option<u32> {
        self.links.indices.get(link).copied()
    }

    /// Adds a link; `None` if the table has reached its limit.
    pub(crate) fn add_link(&mut self, link: Link) -> Option<u32> {
        let link = Arc::new(link);
        let cost = link_cost(&link);
        self.links.add(link, cost)
    }

    /// Nothing marked yet.
    pub(crate) fn marks(&self) -> Marks {
        Marks {
            texts: vec![false; self.texts.values.len() + 1],
            extended: vec![false; self.extended.values.len() + 1],
        }
    }

    /// Removes what is not marked. `link` is used by the pen.
    pub(crate) fn sweep(&mut self, marks: &Marks, link: u32) {
        self.texts.sweep(&marks.texts, text_cost);
        self.extended.sweep(&marks.extended, |_| EXTENDED_COST);
        let mut links = vec![false; self.links.values.len() + 1];
        let used = self.extended.values.iter().flatten().map(|value| value.link);
        for index in used.chain(std::iter::once(link)) {
            if let Some(mark) = links.get_mut(index as usize) {
                *mark = true;
            }
        }
        self.links.sweep(&links, link_cost);
    }
}
