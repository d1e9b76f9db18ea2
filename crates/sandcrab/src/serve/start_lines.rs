//! The lines that `serve` prints when its first server listens: its address, and the path of its token.

use std::path::Path;

use sandcrab_server::{Access, Listen};

/// Returns the lines. The parent prints them, so that they are printed once also if the server is killed meanwhile.
pub(super) fn lines(address: &Listen, access: &Access, token_file: &Path) -> String {
    let token = match access.token {
        Some(_) => format!("token in {} (Authorization: Bearer …)", token_file.display()),
        None => "no token is required: every client that can connect can run commands".to_owned(),
    };
    format!("listening on {address}\n{token}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_with(token: Option<&str>) -> String {
        let address = Listen::Tcp("0.0.0.0:7070".parse().unwrap());
        let access = Access { token: token.map(str::to_owned), ..Access::default() };
        lines(&address, &access, Path::new("/state/token"))
    }

    #[test]
    fn the_token_itself_is_not_shown() {
        let shown = "listening on http://0.0.0.0:7070\ntoken in /state/token (Authorization: Bearer …)\n";
        assert_eq!(lines_with(Some("secret")), shown);
        assert!(
            lines_with(None)
                .ends_with("no token is required: every client that can connect can run commands\n")
        );
    }
}
