//! Reads standard input line by line: prints a prompt (`> `), repeats the line, and prints `bye` at the end
//! of the input.

use std::io::{self, BufRead, Write};

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    let mut line = Vec::new();
    loop {
        let mut stdout = io::stdout();
        if stdout.write_all(b"> ").and_then(|()| stdout.flush()).is_err() {
            return;
        }
        line.clear();
        match io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {
                if stdout.write_all(&line).is_err() {
                    return;
                }
            }
            Err(error) => fixture::fail(&format!("could not read standard input: {error}")),
        }
    }
    fixture::say("bye");
}
