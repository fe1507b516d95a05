//! A service that serves its own heap profile: `cargo run --features prof --example profile_server [ADDRESS]`, then
//! `go tool pprof http://127.0.0.1:3000/debug/pprof/heap` and `curl http://127.0.0.1:3000/metrics`.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use masu::ctl::{epoch, stats};
use metrics::{describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::net::TcpListener;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// The heap profile.
async fn heap() -> impl IntoResponse {
    // A profile of many places takes milliseconds.
    match tokio::task::spawn_blocking(masu::prof::pprof).await {
        Ok(Ok(bytes)) => Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes)),
        Ok(Err(error)) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// Sets the gauges, which whatever recorder is installed publishes.
fn publish() -> masu::ctl::Result<()> {
    epoch::advance()?;
    gauge!("masu_allocated_bytes").set(stats::allocated::read()? as f64);
    gauge!("masu_resident_bytes").set(stats::resident::read()? as f64);
    gauge!("masu_sampled_live_bytes").set(masu::prof::live_bytes() as f64);
    Ok(())
}

/// All that is served.
fn service() -> Result<Router, Box<dyn Error>> {
    let recorder = PrometheusBuilder::new().install_recorder()?;
    describe_gauge!("masu_allocated_bytes", "Bytes of blocks that the program holds");
    describe_gauge!("masu_resident_bytes", "Bytes of memory that masu has resident");
    describe_gauge!("masu_sampled_live_bytes", "Bytes in use, as the heap profile has them");
    publish()?;
    tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if let Err(error) = publish() {
                eprintln!("gauges: {error}");
            }
        }
    });
    Ok(Router::new()
        .route("/debug/pprof/heap", get(heap))
        .route("/debug/pprof/allocs", get(heap))
        .route("/metrics", get(async move || recorder.render())))
}

fn main() -> Result<(), Box<dyn Error>> {
    masu::prof::start(masu::prof::DEFAULT_RATE)?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("http://{}/debug/pprof/heap", listener.local_addr()?);
        axum::serve(listener, service()?).await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::mpsc;
    use std::thread;

    fn ask(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a header");
        let body = bytes.split_off(end + 4);
        (String::from_utf8(bytes).expect("text"), body)
    }

    #[test]
    fn profile_and_gauges_are_served() {
        masu::prof::start(4 << 10).expect("memory");
        let kept: Vec<Vec<u8>> = (0..1000).map(|n| vec![0; 1000 + n % 7]).collect();
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                say.send(listener.local_addr().expect("an address")).expect("heard");
                axum::serve(listener, service().expect("a service")).await.expect("served");
            });
        });
        let address = said.recv().expect("an address");
        let (header, body) = ask(address, "/debug/pprof/heap");
        assert!(header.starts_with("HTTP/1.1 200"), "{header}");
        assert_eq!(body[..2], [0x1f, 0x8b]);
        let (header, body) = ask(address, "/metrics");
        assert!(header.starts_with("HTTP/1.1 200"), "{header}");
        let text = String::from_utf8(body).expect("text");
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {text}")).parse().expect("a number")
        };
        assert!(value("masu_allocated_bytes") > 1e6);
        let sampled = value("masu_sampled_live_bytes");
        // A thousand blocks at 4 KiB a sample: the standard deviation is 6 %.
        assert!((0.7e6..2.5e6).contains(&sampled), "{sampled}");
        drop(kept);
    }
}
