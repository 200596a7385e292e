//! Which model a server has.

use std::time::Duration;

use anyhow::Context as _;
use hyper::HeaderMap;
use serde::Deserialize;
use tokio::time::timeout;

use super::Client;

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// The first model that the server names, for which it has as long as `patience`.
///
/// # Errors
/// It names none, does not say in time, or cannot be asked.
pub(crate) async fn first(
    client: &Client,
    headers: HeaderMap,
    patience: Duration,
) -> anyhow::Result<String> {
    let target = &client.target;
    let unknown =
        || format!("{target}/models does not tell the model to ask for (--model NAME does)");
    let asked = timeout(patience, client.get(target.path("/models"), headers)).await;
    let asked = asked.with_context(|| format!("no answer within {} s", patience.as_secs_f64()));
    let (status, _, body) = asked.with_context(unknown)?.with_context(unknown)?;
    anyhow::ensure!(status == 200, "{}: status {status}", unknown());
    let models: Models = serde_json::from_slice(&body).with_context(unknown)?;
    let first = models.data.into_iter().next().context("an empty list").with_context(unknown)?;
    Ok(first.id)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::wire::Trust;

    #[tokio::test]
    async fn a_server_that_never_answers_is_not_waited_for() {
        // Its connections wait in the system's queue.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(url.parse().unwrap(), &Trust::default()).await.unwrap();
        let named = first(&client, HeaderMap::new(), Duration::from_millis(50)).await;
        let why = format!("{:#}", named.unwrap_err());
        assert!(why.contains("no answer within 0.05 s"), "{why}");
        assert!(why.contains("--model NAME"), "{why}");
    }
}
