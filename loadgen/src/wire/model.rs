//! Which model a server has.

use anyhow::Context as _;
use hyper::HeaderMap;
use serde::Deserialize;

use super::Client;

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// The first model that the server names.
///
/// # Errors
/// It names none, or cannot be asked.
pub(crate) async fn first(client: &Client, headers: HeaderMap) -> anyhow::Result<String> {
    let advice = || format!("{} names no model: say --model NAME", client.target);
    let asked = client.get(client.target.path("/models"), headers).await;
    let (status, _, body) = asked.with_context(advice)?;
    anyhow::ensure!(status == 200, "GET /models gave {status}: {}", advice());
    let models: Models = serde_json::from_slice(&body).with_context(advice)?;
    models.data.into_iter().next().map(|model| model.id).with_context(advice)
}
