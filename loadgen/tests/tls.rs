//! Whom a client believes.

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    sync::Arc,
};

use rcgen::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, Stream, pki_types::PrivateKeyDer};
use support::{Bench, GOOD, SSE, Server};

/// A server with a certificate that it made itself: its URL, and the certificate.
fn server() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("ours is valid");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("ours is valid");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ours is valid")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("ours is valid");
    let config = Arc::new(config);
    let server = Server::new(move |socket| {
        let mut connection = ServerConnection::new(Arc::clone(&config)).expect("ours is valid");
        let mut stream = Stream::new(&mut connection, socket);
        // A request of the scaled workload comes in one piece; who does not believe us sends none.
        if stream.read(&mut [0; 64 << 10]).is_ok_and(|bytes| bytes > 0) {
            let _ = stream.write_all(format!("{SSE}{GOOD}").as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (https(&server), cert.pem())
}

fn https(server: &Server) -> String {
    format!("https://localhost:{}", server.address.port())
}

#[test]
fn an_unknown_authority_is_a_class_of_its_own() {
    let (url, certificate) = server();
    let bench = Bench::new();
    fs::write(bench.path("ca.pem"), &certificate).unwrap();
    let done = bench.run(&url, &["--cacert", "ca.pem"]);
    assert_eq!(done.classes()["ok"], 10, "{}", done.stdout);
    let (other, _) = server();
    let done = bench.run(&other, &["--cacert", "ca.pem", "--overwrite"]);
    assert_eq!(done.classes()["tls"], 10, "{}", done.stdout);
}

#[test]
fn a_server_without_tls_is_one_too() {
    let (_, certificate) = server();
    let bench = Bench::new();
    fs::write(bench.path("ca.pem"), &certificate).unwrap();
    let plain = Server::saying("HTTP/1.1 400 Bad Request\r\n\r\n");
    let done = bench.run(&https(&plain), &["--cacert", "ca.pem"]);
    assert_eq!(done.classes()["tls"], 10, "{}", done.stdout);
}

#[test]
fn a_file_without_certificates_is_named() {
    let bench = Bench::new();
    fs::write(bench.path("ca.pem"), "nothing").unwrap();
    let done = bench.run("https://localhost:1", &["--cacert", "ca.pem"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("ca.pem holds no certificate"), "{}", done.stderr);
}
