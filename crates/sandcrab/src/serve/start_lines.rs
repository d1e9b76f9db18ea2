//! The lines that a server prints when it listens: its address, and the path of its token.

use std::io::{self, Write};
use std::path::Path;

use sandcrab_server::{Access, Listen};

/// Prints the lines. Standard output may be closed.
pub(super) fn print(address: &Listen, access: &Access, token_file: &Path) {
    drop(write(&mut io::stdout().lock(), address, access, token_file));
}

fn write(out: &mut impl Write, address: &Listen, access: &Access, token_file: &Path) -> io::Result<()> {
    writeln!(out, "listening on {address}")?;
    match access.token {
        Some(_) => writeln!(out, "token in {} (Authorization: Bearer …)", token_file.display()),
        None => writeln!(out, "no token is required: every client that can connect can run commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(token: Option<&str>) -> String {
        let address = Listen::Tcp("0.0.0.0:7070".parse().unwrap());
        let access = Access { token: token.map(str::to_owned), ..Access::default() };
        let mut out = Vec::new();
        write(&mut out, &address, &access, Path::new("/state/token")).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_token_itself_is_not_shown() {
        let shown = "listening on http://0.0.0.0:7070\ntoken in /state/token (Authorization: Bearer …)\n";
        assert_eq!(lines(Some("secret")), shown);
        assert!(
            lines(None).ends_with("no token is required: every client that can connect can run commands\n")
        );
    }
}
