//! [`Pattern`]: the text or regular expression of a search or replacement.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use crate::search::SearchError;

/// Maximum length of a pattern.
pub const MAX_PATTERN_BYTES: usize = 16 << 10;

/// Maximum memory of a compiled regular expression.
pub const MAX_REGEX_BYTES: usize = 4 << 20;

/// Maximum depth of groups in a regular expression.
const MAX_REGEX_NESTING: u32 = 100;

/// The text or regular expression of a search or replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The text, or the regular expression in the syntax of the `regex` crate.
    pub text: String,
    /// Whether `text` is a regular expression.
    pub is_regex: bool,
    /// Whether upper and lower case differ.
    pub is_case_sensitive: bool,
    /// Whether only whole words match.
    pub is_word: bool,
}

impl Pattern {
    /// A literal, case-sensitive pattern.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_regex: false, is_case_sensitive: true, is_word: false }
    }

    /// A case-sensitive regular expression.
    pub fn regex(text: impl Into<String>) -> Self {
        Self { is_regex: true, ..Self::literal(text) }
    }

    fn check(&self) -> Result<(), SearchError> {
        let why = match self.text.len() {
            0 => "the pattern is empty".into(),
            long if long > MAX_PATTERN_BYTES => {
                format!("the pattern has {long} bytes; at most {MAX_PATTERN_BYTES} are allowed")
            }
            _ => return Ok(()),
        };
        Err(SearchError::InvalidPattern(why))
    }

    /// A matcher of single lines.
    pub(crate) fn line_matcher(&self) -> Result<RegexMatcher, SearchError> {
        self.check()?;
        RegexMatcherBuilder::new()
            .multi_line(true)
            .case_insensitive(!self.is_case_sensitive)
            .word(self.is_word)
            .fixed_strings(!self.is_regex)
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .nest_limit(MAX_REGEX_NESTING)
            .build(&self.text)
            .map_err(|e| SearchError::InvalidPattern(format!("invalid pattern: {e}")))
    }

    /// A regular expression for a whole file. `^` and `$` match at the boundaries of lines.
    pub(crate) fn file_regex(&self) -> Result<regex::bytes::Regex, SearchError> {
        self.check()?;
        let mut source = if self.is_regex { self.text.clone() } else { regex::escape(&self.text) };
        if self.is_word {
            source = format!(r"\b{{start-half}}(?:{source})\b{{end-half}}");
        }
        regex::bytes::RegexBuilder::new(&source)
            .multi_line(true)
            .case_insensitive(!self.is_case_sensitive)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .nest_limit(MAX_REGEX_NESTING)
            .build()
            .map_err(|e| SearchError::InvalidPattern(format!("invalid pattern: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_patterns_are_refused_by_both_forms() {
        for text in ["", "(", "a{1000}{1000}{1000}", &"(".repeat(200), &"x".repeat(MAX_PATTERN_BYTES + 1)] {
            let pattern = Pattern::regex(text);
            assert!(matches!(pattern.line_matcher(), Err(SearchError::InvalidPattern(_))), "{text:.20}");
            assert!(matches!(pattern.file_regex(), Err(SearchError::InvalidPattern(_))), "{text:.20}");
        }
        assert!(Pattern::literal("(").file_regex().is_ok());
    }

    #[test]
    fn whole_words() {
        let of = |text: &str, is_word| Pattern { is_word, ..Pattern::literal(text) }.file_regex().unwrap();
        assert!(of("cat", false).is_match(b"concatenate"));
        assert!(!of("cat", true).is_match(b"concatenate"));
        assert!(of("cat", true).is_match(b"a cat."));
        // As in ripgrep, a pattern need not begin or end with a letter.
        assert!(of("-v", true).is_match(b"run -v now"));
    }
}
