//! A gRPC server that can be killed like a process.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Mutex,
};

use tokio::{runtime::Runtime, sync::mpsc, time::timeout};
use tonic::transport::server::{Router, TcpIncoming};

use super::LONG;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// Everything of the server lives here, its connections too.
    runtime: Mutex<Option<Runtime>>,
}

impl Server {
    pub(super) fn start(address: SocketAddr, router: Router) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming(incoming).await.expect("a server");
        });
        Self { address, runtime: Mutex::new(Some(runtime)) }
    }

    /// Ends it at once, connections and all.
    pub(super) fn kill(&self) {
        if let Some(runtime) = self.runtime.lock().expect("no panic").take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What an upstream has seen, in order.
pub(super) struct Log<T> {
    sender: mpsc::UnboundedSender<T>,
    receiver: tokio::sync::Mutex<mpsc::UnboundedReceiver<T>>,
}

impl<T> Log<T> {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: receiver.into() }
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<T> {
        self.sender.clone()
    }

    pub(super) async fn next(&self) -> T {
        let mut receiver = self.receiver.lock().await;
        timeout(LONG, receiver.recv()).await.expect("nothing was seen").expect("a sender is held")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receiver.try_lock().expect("one reader").is_empty()
    }
}
