//! Behind a proxy as it comes out of the box.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use e2e::{Chat, Spec, Stack, eventually};
use futures_util::StreamExt as _;

struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nginx with its defaults before `upstream`, if there is one on this machine.
fn nginx(dir: &Path, port: u16, upstream: &str) -> Option<Nginx> {
    let config = format!(
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
         events {{}}
         http {{ access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
           fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
           server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {upstream}; }} }} }}",
        dir = dir.display()
    );
    let path = dir.join("nginx.conf");
    fs::write(&path, config).expect("a file");
    // Where Debian has it is not in everybody's path.
    let started = ["nginx", "/usr/sbin/nginx"].into_iter().find_map(|binary| {
        let mut command = Command::new(binary);
        command.arg("-c").arg(&path).arg("-p").arg(dir);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    });
    started.map(Nginx)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_arrive_one_by_one_behind_nginx() {
    let stack = Stack::start(Spec::mock(20_000, 100)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let port = ports::free_address();
    let Some(_nginx) = nginx(dir.path(), port.port(), &stack.url(0, "")) else {
        e2e::skipped("nginx: there is none here; Debian has it in nginx-light");
        return;
    };
    let url = |path: &str| format!("http://{port}{path}");
    let up = async || {
        let health = stack.http().get(url("/health")).send().await;
        health.is_ok_and(|response| response.status() == 200)
    };
    assert!(eventually(Duration::from_secs(10), up).await, "nginx does not answer");

    let body = Chat::new("count", 50).body;
    let begun = Instant::now();
    let request = stack.http().post(url("/v1/chat/completions")).json(&body);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let mut bytes = response.bytes_stream();
    let (mut pieces, mut first) = (0, None);
    while let Some(piece) = bytes.next().await {
        piece.expect("the stream holds");
        first.get_or_insert(begun.elapsed());
        pieces += 1;
    }
    let (took, first) = (begun.elapsed(), first.expect("a piece"));
    assert!(pieces >= 25, "50 tokens came in {pieces} pieces");
    assert!(first < took / 2, "the first piece came after {first:?} of {took:?}");
}
