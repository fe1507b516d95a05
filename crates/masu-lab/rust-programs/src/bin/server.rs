//! A server on tokio and its clients, in one process, over loopback: lines of JSON in, lines out.

use rust_programs::{Random, finish, mix, scaled, total};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

async fn serve(stream: TcpStream) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        let words: Vec<String> = request["text"]
            .as_str()
            .expect("a text")
            .split(' ')
            .map(|word| word.chars().rev().collect())
            .collect();
        let answer = json!({ "id": request["id"], "words": words, "count": words.len() });
        write.write_all((answer.to_string() + "\n").as_bytes()).await?;
    }
    Ok(())
}

async fn ask(address: std::net::SocketAddr, client: u64, requests: u64) -> std::io::Result<u64> {
    let mut random = Random(client);
    let (read, mut write) = TcpStream::connect(address).await?.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut sum = 0u64;
    for id in 0..requests {
        let words = 1 + random.below(40);
        let text: Vec<String> = (0..words).map(|word| format!("word{word}")).collect();
        let request = json!({ "id": id, "text": text.join(" ") });
        write.write_all((request.to_string() + "\n").as_bytes()).await?;
        let line = lines.next_line().await?.expect("an answer");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&answer["id"], &answer["count"]), (&json!(id), &json!(words)));
        sum = sum.wrapping_add(mix(total(line.as_bytes()) + id));
    }
    Ok(sum)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let requests = scaled(8000);
    let clients: Vec<_> =
        (0..16).map(|client| tokio::spawn(ask(address, client, requests))).collect();
    let mut sum = 0u64;
    for client in clients {
        sum = sum.wrapping_add(client.await.expect("no panic")?);
    }
    finish(sum);
    Ok(())
}
