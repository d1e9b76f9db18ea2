//! The `sandcrab` program: the server, and the command line to use it. One file per subcommand.

fn main() {
    // First of all: the zygote is this program, started again.
    sandcrab_engine::init();
}
