//! The benchmark of previews: the proxy of a server beside nginx, in front of the same program.
//!
//! The program is another nginx, which serves a small and a large file. `SANDCRAB_NGINX` names the program nginx, by default
//! the one in `PATH`. All of them, and the client, share the cores of the machine. Both proxies are measured in turns.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use super::http::{Connection, Server, post};
use super::{FigureError, FigureLimit, Measure, Row, Table};

/// Connections of the client, each with one request at a time.
const CONNECTIONS: usize = 16;
/// Duration of a round, and number of rounds for each proxy. The best one counts.
const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
/// Sizes of the two files.
const SMALL_BYTES: usize = 1 << 10;
const LARGE_BYTES: usize = 64 << 20;
/// Maximum time until a program listens.
const START_TIME: Duration = Duration::from_secs(30);

/// Measures the proxies, and adds a row for each figure. Nothing is left running.
pub fn push_previews(table: &mut Table, mut progress: impl FnMut(&str)) -> Result<(), FigureError> {
    let directory = tempfile::tempdir()?;
    let files = directory.path().join("files");
    fs::create_dir(&files)?;
    fs::write(files.join("small"), vec![b'x'; SMALL_BYTES])?;
    fs::write(files.join("large"), vec![b'x'; LARGE_BYTES])?;
    let (upstream, proxy) = (free_port()?, free_port()?);
    let _upstream = Nginx::start(
        directory.path(),
        "upstream",
        upstream,
        &format!("location / {{ root {}; }}", files.display()),
        "",
    )?;
    let _proxy = Nginx::start(
        directory.path(),
        "proxy",
        proxy,
        "location / { proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_max_temp_file_size 0; }",
        &format!(
            "upstream program {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}"
        ),
    )?;
    let server = Server::start(&directory.path().join("state"))?;
    let body = serde_json::json!({"port": upstream, "token": "bench"}).to_string();
    let exposed = server.connect()?.ask_whole(&post("/api/port/expose", &body))?;
    let exposed: serde_json::Value = serde_json::from_slice(&exposed)?;
    let host = exposed["url"].as_str().and_then(|url| url.strip_prefix("http://")).unwrap_or_default();
    let host = host.trim_end_matches('/').to_owned();
    let proxies =
        [(SocketAddr::from(([127, 0, 0, 1], proxy)), "localhost".to_owned()), (server.address(), host)];
    for (what, path, connections) in [("requests", "/small", CONNECTIONS), ("bytes", "/large", 2)] {
        let mut best = [0.0_f64; 2];
        for round in 0..ROUNDS {
            progress(&format!("{what} through nginx and through a preview, round {}", round + 1));
            for (best, (address, host)) in best.iter_mut().zip(&proxies) {
                let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes();
                let (requests, bytes) = load(*address, &request, connections)?;
                let amount = if what == "requests" { requests } else { bytes };
                *best = best.max(amount);
            }
        }
        let [nginx, own] = best;
        let (name, measure): (_, fn(f64) -> Measure) = match what {
            "requests" => (
                "preview: requests of 1 KiB over 16 connections (floor: nginx as a proxy)",
                Measure::PerSecond,
            ),
            _ => (
                "preview: body of 64 MiB over 2 connections (floor: nginx as a proxy)",
                Measure::BytesPerSecond,
            ),
        };
        table.push(
            Row::new(name, measure(own)).floor(measure(nginx)).limit(FigureLimit::AtLeastTimesFloor(0.7)),
        );
    }
    Ok(())
}

/// Sends requests for a while; requests and bytes per second.
fn load(address: SocketAddr, request: &[u8], connections: usize) -> Result<(f64, f64), FigureError> {
    let begun = Instant::now();
    let client = || -> io::Result<(u64, u64)> {
        let mut connection = Connection::open(address)?;
        let (mut requests, mut bytes) = (0, 0);
        while begun.elapsed() < ROUND {
            connection.ask(request, |piece| bytes += piece.len() as u64)?;
            requests += 1;
        }
        Ok((requests, bytes))
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(client)).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let took = begun.elapsed().as_secs_f64();
    let (mut requests, mut bytes) = (0, 0);
    for result in results {
        let (more, size) = result.map_err(|_| "a client panicked")??;
        requests += more;
        bytes += size;
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
    Ok((requests as f64 / took, bytes as f64 / took))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// An nginx in the foreground. It is ended on drop.
#[derive(Debug)]
struct Nginx(Child);

impl Nginx {
    fn start(
        folder: &Path,
        name: &str,
        port: u16,
        location: &str,
        before: &str,
    ) -> Result<Self, FigureError> {
        let prefix = folder.join(name);
        fs::create_dir_all(prefix.join("logs"))?;
        let config = prefix.join("nginx.conf");
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut file = fs::File::create(&config)?;
        write!(
            file,
            "daemon off; master_process on; worker_processes {workers}; pid {name}.pid; error_log stderr error;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; default_type text/plain;\n\
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             {before}\nserver {{ listen 127.0.0.1:{port}; {location} }} }}\n"
        )?;
        // Its workers must be able to read the files.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let program = env::var_os("SANDCRAB_NGINX").unwrap_or_else(|| "nginx".into());
        let child = Command::new(&program)
            .arg("-p")
            .arg(&prefix)
            .arg("-c")
            .arg(&config)
            .args(["-g", user])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("could not start {}: {error}; install nginx", program.display()))?;
        let nginx = Self(child);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > START_TIME {
                return Err("nginx does not listen".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its workers.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        drop(self.0.wait());
    }
}
