//! A tokio server whose connections share a pool of buffers: a connection has one only while there is something to
//! read, so that ten thousand idle ones need none.
//!
//! `cargo run --example echo_server -- 127.0.0.1:7000`

use masu::BufferPool;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

async fn serve(mut connection: TcpStream, pool: Arc<BufferPool>) -> io::Result<()> {
    loop {
        connection.readable().await?;
        // All leased: let the others go on, then look again.
        let Some(mut buffer) = BufferPool::lease_owned(&pool) else {
            tokio::task::yield_now().await;
            continue;
        };
        match connection.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => connection.write_all(&buffer[..read]).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn accept(listener: TcpListener, pool: Arc<BufferPool>) -> io::Result<()> {
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(serve(connection, pool.clone()));
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&address).await?;
        println!("listening on {}", listener.local_addr()?);
        accept(listener, Arc::new(BufferPool::new(64, 16 << 10))).await
    })
}

#[test]
fn what_is_sent_comes_back_and_idle_connections_have_no_buffer() {
    use std::io::{Read, Write};

    let pool = Arc::new(BufferPool::new(2, 4096));
    let (say, hear) = std::sync::mpsc::channel();
    let served = pool.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            say.send(listener.local_addr().unwrap()).unwrap();
            accept(listener, served).await.unwrap();
        });
    });
    let address = hear.recv().unwrap();
    let mut connections: Vec<_> =
        (0..20).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    for round in 0..3 {
        for connection in &mut connections {
            let sent = vec![b'a' + round; 10_000];
            connection.write_all(&sent).unwrap();
            let mut back = vec![0; sent.len()];
            connection.read_exact(&mut back).unwrap();
            assert_eq!(back, sent);
        }
    }
    // The last one is given back when its bytes are written.
    while [pool.lease(), pool.lease()].iter().any(Option::is_none) {
        std::thread::yield_now();
    }
}
