//! The supervisor as a separate program, for embedders that do not call `sandcrab_engine::init` in their `main`.

fn main() {
    sandcrab_engine::init();
    #[expect(clippy::print_stderr, reason = "this is a program")]
    {
        eprintln!("sandcrab-supervisor is started by an engine, not by hand");
    }
    std::process::exit(2);
}
