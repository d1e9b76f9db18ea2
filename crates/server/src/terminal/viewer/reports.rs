//! Answers of a terminal to queries, in the input of a viewer.

/// Whether input consists only of answers to queries. Keys are not answers, whatever they look like.
pub(super) fn is_only_reports(mut input: &[u8]) -> bool {
    if input.is_empty() {
        return false;
    }
    while !input.is_empty() {
        match report_length(input) {
            Some(length) => input = &input[length..],
            None => return false,
        }
    }
    true
}

/// The length of the answer at the beginning of the input.
fn report_length(input: &[u8]) -> Option<usize> {
    match input {
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            is_csi_report(&rest[..end], rest[end]).then_some(end + 3)
        }
        // OSC (colours), DCS (settings, version).
        [0x1b, b']' | b'P', rest @ ..] => {
            let end = rest.windows(2).position(|two| two == b"\x1b\\").map(|at| at + 2);
            let bell = rest.iter().position(|byte| *byte == 0x07).map(|at| at + 1);
            Some(end.into_iter().chain(bell).min()? + 2)
        }
        _ => None,
    }
}

fn is_csi_report(parameters: &[u8], last: u8) -> bool {
    let is_private = parameters.first().is_some_and(|byte| matches!(byte, b'?' | b'>'));
    match last {
        // DA, DSR, DECRPM, the kitty keyboard, windows.
        b'c' => is_private,
        b'n' => true,
        b'y' => parameters.ends_with(b"$"),
        b'u' => parameters.first() == Some(&b'?'),
        b't' => !parameters.is_empty(),
        // The position of the cursor. `CSI 1;2R` to `CSI 1;8R` are F3 with modifiers.
        b'R' => {
            let is_key = matches!(parameters, [b'1', b';', b'2'..=b'8']);
            is_private || (parameters.contains(&b';') && !is_key)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_keys() {
        for report in [
            "\x1b[?1;2c",
            "\x1b[>0;276;0c",
            "\x1b[24;80R",
            "\x1b[0n",
            "\x1b[?2026;2$y",
            "\x1b]11;rgb:0000/0000/0000\x1b\\",
            "\x1b]10;rgb:ffff/ffff/ffff\x07",
            "\x1bP1$r0m\x1b\\",
            "\x1b[?1;2c\x1b[5;6R",
        ] {
            assert!(is_only_reports(report.as_bytes()), "{report:?}");
        }
        for input in [
            "",
            "a",
            "\x1b",
            "\x1b[",
            "\x1b[A",
            "\x1bOP",
            "\x1b[1;5D",
            "\x1b[1;2R",
            "\x1b[200~x\x1b[201~",
            "\x1b[?1;2ca",
            "\x1b[3~",
            "\x1b[<0;1;1M",
            "\x1b[I",
            "\x1b]11;rgb",
        ] {
            assert!(!is_only_reports(input.as_bytes()), "{input:?}");
        }
    }
}
