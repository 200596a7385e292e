//! Clients that mean ill, beside others who do not, at a gateway of its own.

use std::time::{Duration, Instant};

use e2e::{Answer, Chat, Spec, Stack, eventually};
use futures_util::future::join_all;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const MIB: u64 = 1 << 20;
/// A gateway that needs more address space than this does not keep its bounds.
const SPACE: u64 = 4 << 30;

async fn connect(stack: &Stack) -> TcpStream {
    TcpStream::connect(stack.address(0)).await.expect("a connection")
}

/// What the allocator may keep of memory that was freed.
const STAYS: u64 = 64 * MIB;

/// The head of a chat request whose body is `bytes` long.
fn head(bytes: usize) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {bytes}\r\n\r\n"
    )
}

/// Sends a byte of a long body now and then, until it is told to stop; says what it was told.
async fn slow_body(stack: &Stack) -> String {
    let mut socket = connect(stack).await;
    let mut told = Vec::new();
    if socket.write_all(head(1 << 20).as_bytes()).await.is_ok() {
        loop {
            tokio::select! {
                read = socket.read_buf(&mut told) => if !matches!(read, Ok(1..)) { break },
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    if socket.write_all(b" ").await.is_err() {
                        break;
                    }
                }
            }
        }
    }
    String::from_utf8_lossy(&told).into_owned()
}

/// Reads a streamed answer at 100 bytes a second.
async fn slow_reader(stack: &Stack) {
    let mut socket = connect(stack).await;
    let body = Chat::new("a long story", 400).body.to_string();
    let request = head(body.len()) + &body;
    socket.write_all(request.as_bytes()).await.expect("it is read");
    let mut taken = [0; 10];
    while socket.read(&mut taken).await.is_ok_and(|read| read > 0) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Asks one after the other for as long as told.
async fn users(stack: &Stack, time: Duration) -> Vec<Answer> {
    let user = async |number: usize| {
        let begun = Instant::now();
        let mut answers = Vec::new();
        while begun.elapsed() < time {
            answers.push(Chat::new(&format!("user {number}"), 10).ask(stack, 0).await);
        }
        answers
    };
    join_all((0..4).map(user)).await.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_slow_bodies_and_fifty_slow_readers_disturb_nobody() {
    let admission = ["--limit-requests", "100", "--limit-tokens", "1000000"];
    let admission = [&admission[..], &["--limit-kv-blocks", "1000000"]].concat();
    let spec = Spec::mock(1_000, 20).engine(&["--slots", "64"]).admission(&admission);
    let spec = spec.gateway(&["--body-timeout-ms", "4000"]);
    let stack = Stack::start(spec).await;
    stack.gateways[0].limit_memory(SPACE);
    let before = stack.gateways[0].resident_bytes();
    let bodies = join_all((0..500).map(|_| slow_body(&stack)));
    let readers = tokio::time::timeout(
        Duration::from_secs(6),
        join_all((0..50).map(|_| slow_reader(&stack))),
    );
    let (told, _, answers) = tokio::join!(bodies, readers, users(&stack, Duration::from_secs(5)));
    let cut = told.iter().filter(|told| told.starts_with("HTTP/1.1 408 ")).count();
    assert!(cut == 500, "{cut} of 500 slow bodies were cut with 408, one with {:?}", told[0]);
    assert!(answers.len() >= 20, "only {} answers", answers.len());
    assert!(answers.iter().all(Answer::is_complete), "{answers:?}");
    let grown = stack.gateways[0].resident_bytes().saturating_sub(before);
    assert!(grown < 128 * MIB, "grown by {} MiB", grown / MIB);
    assert!(eventually(Duration::from_secs(5), async || stack.is_idle().await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_bounded_and_leave_nothing_behind() {
    let stack = Stack::start(Spec::mock(1_000, 20)).await;
    stack.gateways[0].limit_memory(SPACE);
    let before = stack.gateways[0].resident_bytes();
    let part = vec![b' '; 8 << 20];
    let large = async |number: usize| {
        let mut socket = connect(&stack).await;
        let _ = socket.write_all(head(part.len()).as_bytes()).await;
        let _ = socket.write_all(&part[..part.len() - 1 - number % 2]).await;
        let mut told = Vec::new();
        if number.is_multiple_of(2) {
            let _ = socket.write_all(b"{").await;
        }
        let read = socket.read_to_end(&mut told);
        // Half of them stall until they are cut, or leave.
        let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
        String::from_utf8_lossy(&told).lines().next().unwrap_or_default().to_owned()
    };
    let (told, most) = tokio::join!(join_all((0..300).map(large)), peak(&stack));
    let most = most.max(before);
    for status in &told {
        let known = ["", "HTTP/1.1 400 Bad Request", "HTTP/1.1 503 Service Unavailable"];
        assert!(known.contains(&status.as_str()), "{status}");
    }
    let grown = || stack.gateways[0].resident_bytes().saturating_sub(before);
    eprintln!("grown by {} MiB at most, {} MiB at the end", (most - before) / MIB, grown() / MIB);
    assert!(most - before < 192 * MIB, "grown by {} MiB at most", (most - before) / MIB);
    let given_back = async || {
        let answer = Chat::new("still there?", 4).ask(&stack, 0).await;
        assert!(answer.is_complete(), "{answer:?}");
        grown() < STAYS
    };
    let back = eventually(Duration::from_secs(10), given_back).await;
    assert!(back, "{} MiB stay", grown() / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_prompts_leave_nothing_behind() {
    let stack = Stack::start(Spec::mock(1_000, 20)).await;
    stack.gateways[0].limit_memory(SPACE);
    let before = stack.gateways[0].resident_bytes();
    let prompt = "words \n".repeat((4 << 20) / 7);
    for burst in 0..4 {
        let ask = async |_| Chat::new(&prompt, 4).ask(&stack, 0).await.status;
        let told = join_all((0..24).map(ask)).await;
        assert!(told.iter().all(|status| [400, 503].contains(status)), "{told:?}");
        let grown = || stack.gateways[0].resident_bytes().saturating_sub(before);
        eprintln!("{} MiB after burst {burst}", grown() / MIB);
        let back = eventually(Duration::from_secs(10), async || grown() < STAYS).await;
        assert!(back, "{} MiB stay", grown() / MIB);
    }
}

/// The most memory that is seen in the first two seconds.
async fn peak(stack: &Stack) -> u64 {
    let begun = Instant::now();
    let mut most = stack.gateways[0].resident_bytes();
    while begun.elapsed() < Duration::from_secs(2) {
        most = stack.gateways[0].resident_bytes().max(most);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn one_limit_decides_what_is_too_large() {
    let limit = (16 << 20).to_string();
    let spec = Spec::mock(1_000, 20).gateway(&["--body-bytes-max", &limit]);
    let stack = Stack::start(spec).await;
    let prompt = |mib: usize| Chat::new(&"words ".repeat((mib << 20) / 6), 4);
    let answer = prompt(5).ask(&stack, 0).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.error.expect("an error")["code"], json!("context_length_exceeded"));
    let answer = prompt(17).ask(&stack, 0).await;
    assert!([0, 413].contains(&answer.status), "{answer:?}");
    let answer = Chat::new("short", 4).ask(&stack, 0).await;
    assert!(answer.is_complete(), "{answer:?}");
}
