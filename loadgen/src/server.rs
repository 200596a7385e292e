//! The server that a command is about: options that several commands share.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::{self, Api, Call, Client, Target, Trust};

/// How long a server may think about which models it has.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the server is and how it is asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Access {
    /// Its address, such as http://127.0.0.1:8000; /v1 is added where there is no path
    #[arg(long, value_name = "URL")]
    pub(crate) url: Target,
    /// Which endpoint
    #[arg(long, value_enum, default_value = "chat")]
    pub(crate) api: Api,
    /// The model to ask for [default: the first that the server names]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Sent as `Authorization: Bearer KEY`; it is written into no file
    #[arg(long, value_name = "KEY", env = "OPENAI_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// A header of every request, such as 'x-tenant: a'; may be given again
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Believe the CA certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
}

/// A server that can be asked.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) api: Api,
    pub(crate) model: String,
    pub(crate) headers: HeaderMap,
}

impl Access {
    /// Finds the server's address and, unless it was said, its model.
    ///
    /// # Errors
    /// The address is not known, or the server names no model.
    pub(crate) async fn connect(&self) -> anyhow::Result<Server> {
        let key = self.api_key.as_deref().filter(|key| !key.is_empty());
        let headers = Call::headers(key, &self.headers).context("the API key is no header")?;
        let trust = Trust { ca_file: self.cacert.clone() };
        let client = Client::new(self.url.clone(), &trust).await?;
        let model = match &self.model {
            Some(model) => model.clone(),
            None => wire::first_model(&client, headers.clone(), PATIENCE).await?,
        };
        Ok(Server { client, api: self.api, model, headers })
    }
}

impl Server {
    /// The call that asks for `ask`.
    pub(crate) fn call(&self, ask: &workload::Ask, ignore_eos: bool) -> Call {
        Call {
            path: self.client.target.path(self.api.path()),
            headers: self.headers.clone(),
            body: wire::request_body(ask, self.api, &self.model, ignore_eos),
            max_tokens: ask.max_tokens.0,
            on_first_token: None,
        }
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    let name = name.trim().parse().map_err(|_| format!("`{name}` is no name of a header"))?;
    let value = value.trim().parse().map_err(|_| "the value has characters that none may have")?;
    Ok((name, value))
}

/// The command line as it may be written down: without keys and values of headers.
pub(crate) fn command_line() -> Vec<String> {
    let mut hide_next = false;
    let shown = std::env::args_os().map(|arg| {
        let arg = arg.to_string_lossy().into_owned();
        if std::mem::take(&mut hide_next) {
            return "***".into();
        }
        hide_next = ["--api-key", "--header", "-H"].contains(&arg.as_str());
        match arg.split_once('=') {
            Some((name @ ("--api-key" | "--header"), _)) => format!("{name}=***"),
            Some(_) | None if arg.starts_with("-H") && arg.len() > 2 => "-H***".into(),
            Some(_) | None => arg,
        }
    });
    shown.collect()
}
