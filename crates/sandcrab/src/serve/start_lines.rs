//! What a server says when it is there: where it listens, and how to be let in.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use sandcrab_server::{Access, Listen};

use crate::address_file::reachable;

/// Prints the lines; nobody may be there to read them. The token itself is shown only to a person at a terminal, as part
/// of an address for a browser.
pub(super) fn print(address: &Listen, access: &Access, token_file: &Path) {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    drop(write(&mut stdout.lock(), address, access, token_file, is_terminal));
}

fn write(
    out: &mut impl Write,
    address: &Listen,
    access: &Access,
    token_file: &Path,
    is_terminal: bool,
) -> io::Result<()> {
    writeln!(out, "listening on {address}")?;
    let Some(token) = &access.token else {
        return writeln!(out, "no token is needed: whoever can connect may run commands");
    };
    writeln!(out, "token in {} (Authorization: Bearer …)", token_file.display())?;
    match address {
        Listen::Tcp(address) if is_terminal => {
            writeln!(out, "open http://{}/#token={token}", reachable(*address))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(address: &Listen, token: Option<&str>, is_terminal: bool) -> String {
        let access = Access { token: token.map(str::to_owned), ..Access::default() };
        let mut out = Vec::new();
        write(&mut out, address, &access, Path::new("/state/token"), is_terminal).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_token_is_shown_at_a_terminal_only() {
        let tcp = Listen::Tcp("0.0.0.0:7070".parse().unwrap());
        let plain = "listening on http://0.0.0.0:7070\ntoken in /state/token (Authorization: Bearer …)\n";
        assert_eq!(lines(&tcp, Some("secret"), false), plain);
        assert_eq!(
            lines(&tcp, Some("secret"), true),
            format!("{plain}open http://127.0.0.1:7070/#token=secret\n")
        );
        let unix = Listen::Unix("/run/s".into());
        assert!(!lines(&unix, Some("secret"), true).contains("secret"));
        assert!(lines(&unix, None, true).contains("no token is needed"));
    }
}
