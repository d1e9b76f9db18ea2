//! [`Condition`]: `If-Match` and `If-None-Match` of a write.

use std::fs::Metadata;
use std::path::Path;

use super::temporary::Replaced;
use crate::error::{FileError, FileErrorKind};

/// The state that a file must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// The file must have one of these entity tags.
    pub if_match: Option<Tags>,
    /// The file must not have any of these entity tags.
    pub if_none_match: Option<Tags>,
}

/// Entity tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: that of any existing file.
    Any,
    /// These, with their quotes.
    List(Vec<String>),
}

impl Tags {
    /// Whether a file with this tag matches. `None` is a file that does not exist.
    pub fn matches(&self, etag: Option<&str>) -> bool {
        match (self, etag) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::List(tags), Some(etag)) => tags.iter().any(|tag| tag == etag),
        }
    }
}

impl Condition {
    /// What a write may replace that has found this file.
    pub(super) fn replaced<'a>(&self, found: Option<&'a Metadata>) -> Replaced<'a> {
        let names_tags = [&self.if_match, &self.if_none_match].into_iter().flatten();
        match found {
            Some(found) if names_tags.clone().any(|tags| matches!(tags, Tags::List(_))) => {
                Replaced::Exactly(found)
            }
            None if names_tags.count() > 0 => Replaced::Nothing,
            found => Replaced::Any { is_new: found.is_none() },
        }
    }

    pub(super) fn check(&self, etag: Option<&str>, path: &Path) -> Result<(), FileError> {
        let is_missing = self.if_match.as_ref().is_some_and(|tags| !tags.matches(etag));
        let is_there = self.if_none_match.as_ref().is_some_and(|tags| tags.matches(etag));
        if is_missing || is_there {
            return Err(FileError::new(FileErrorKind::Changed, path));
        }
        Ok(())
    }
}
