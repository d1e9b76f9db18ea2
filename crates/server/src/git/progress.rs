//! The progress that git reports on standard error.

/// Maximum length of a line that is kept while it is incomplete.
const MAX_LINE_BYTES: usize = 1024;

/// One report: a phase, and how much of it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) phase: String,
    pub(crate) percent: u8,
}

/// Finds reports in a stream of output.
#[derive(Debug, Default)]
pub(crate) struct ProgressParser {
    line: Vec<u8>,
    last: Option<Progress>,
}

impl ProgressParser {
    /// Returns the reports in this output that differ from the one before.
    pub(crate) fn feed(&mut self, output: &[u8]) -> Vec<Progress> {
        let mut found = Vec::new();
        for &byte in output {
            if !matches!(byte, b'\r' | b'\n') {
                if self.line.len() < MAX_LINE_BYTES {
                    self.line.push(byte);
                }
                continue;
            }
            let report = parse(&self.line);
            self.line.clear();
            if report.is_some() && report != self.last {
                self.last.clone_from(&report);
                found.extend(report);
            }
        }
        found
    }
}

/// Parses `Receiving objects:  42% (42/100), 1.20 MiB | 1.10 MiB/s`.
fn parse(line: &[u8]) -> Option<Progress> {
    let text = std::str::from_utf8(line).ok()?;
    let text = text.strip_prefix("remote: ").unwrap_or(text);
    let (phase, rest) = text.split_once(':')?;
    let percent = rest.trim_start().split_once('%')?.0.parse().ok().filter(|percent| *percent <= 100)?;
    Some(Progress { phase: phase.trim().to_owned(), percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_however_the_output_is_cut() {
        let output = b"Cloning into 'x'...\nremote: Counting objects:  50% (1/2)\rremote: Counting objects: 100% (2/2)\n\
            Receiving objects:  50% (1/2), 1 KiB\rReceiving objects:  50% (1/2), 2 KiB\rReceiving objects: 100% (2/2)\r\n: 7%\n";
        let mut whole = ProgressParser::default();
        let expected = whole.feed(output);
        let pairs: Vec<_> = expected.iter().map(|found| (found.phase.as_str(), found.percent)).collect();
        let objects = "Counting objects";
        assert_eq!(
            pairs[..4],
            [(objects, 50), (objects, 100), ("Receiving objects", 50), ("Receiving objects", 100)]
        );
        for step in 1..20 {
            let mut parser = ProgressParser::default();
            let found: Vec<_> = output.chunks(step).flat_map(|part| parser.feed(part)).collect();
            assert_eq!(found, expected);
        }
    }
}
