//! A server in a few lines: `cargo run -p sandcrab-server --example serve -- STATE_DIR TOKEN`.

use sandcrab_server::{Server, ServerConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, because the engine starts this program again as its supervisors.
    sandcrab_engine::init();
    let mut words = std::env::args().skip(1);
    let (Some(state_dir), Some(token)) = (words.next(), words.next()) else {
        return Err("give a state directory and a token".into());
    };
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut config = ServerConfig::new(state_dir, token.clone());
        if token == "-" {
            config.access.token = None;
        }
        let server = Server::start(config).await?;
        #[expect(clippy::print_stdout, reason = "a program that is run by hand")]
        {
            println!("listening on {}", server.address());
        }
        server.run(std::future::pending()).await?;
        Ok(())
    })
}
