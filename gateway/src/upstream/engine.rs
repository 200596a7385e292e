//! The engine's gRPC service.

use std::error::Error as _;

use proto::{
    MESSAGE_BYTES_MAX,
    v1::{
        GenerateEvent, GenerateRequest, InfoRequest, InfoResponse, PrepareRequest, PrepareResponse,
        engine_client::EngineClient, prepare_request::Input,
    },
};
use tonic::{Code, Status, Streaming, transport::Channel};
use tracing::{error, warn};
use units::{RequestId, Span};

use crate::error::ApiError;

/// One engine. Cheap to clone; belongs to the runtime that it was made on.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    client: EngineClient<Channel>,
}

impl Engine {
    /// An engine at `address`, connected on first use.
    ///
    /// # Errors
    /// The address is not one.
    pub(crate) fn at(address: &str) -> anyhow::Result<Self> {
        let client = EngineClient::new(service::grpc::connect_lazily(address)?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { client })
    }

    pub(crate) async fn prepare(
        &self,
        id: RequestId,
        input: Input,
        return_token_ids: bool,
    ) -> Result<PrepareResponse, Status> {
        let request =
            PrepareRequest { request_id: id.to_string(), input: Some(input), return_token_ids };
        Ok(self.client.clone().prepare(request).await?.into_inner())
    }

    pub(crate) async fn generate(
        &self,
        request: GenerateRequest,
    ) -> Result<Streaming<GenerateEvent>, Status> {
        Ok(self.client.clone().generate(request).await?.into_inner())
    }

    pub(crate) async fn info(&self) -> Result<InfoResponse, Status> {
        Ok(self.client.clone().info(InfoRequest {}).await?.into_inner())
    }
}

/// What a failed call to the engine, or a broken stream, means to the client.
pub(crate) fn failure(status: &Status) -> ApiError {
    let message = || status.message().to_owned();
    // Trouble with the connection comes under several codes, but only it has a cause on our side.
    if status.source().is_some() {
        warn!(code = ?status.code(), cause = ?status.source(), "the connection to the engine failed");
        return ApiError::EngineDown { reason: "the connection failed".into() };
    }
    match status.code() {
        Code::InvalidArgument => {
            let param = status.metadata().get("param").and_then(|param| param.to_str().ok());
            ApiError::Invalid { message: message(), param: param.map(str::to_owned), code: None }
        }
        Code::ResourceExhausted => {
            ApiError::EngineBusy { message: message(), retry_after: retry_after(status) }
        }
        Code::DeadlineExceeded => ApiError::Deadline,
        Code::Unavailable => ApiError::EngineDown { reason: message() },
        Code::Cancelled | Code::Aborted => ApiError::Cancelled,
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => {
            error!(code = ?status.code(), message = status.message(), "the engine failed a call");
            ApiError::Internal
        }
    }
}

fn retry_after(status: &Status) -> Option<Span> {
    let micros = status.metadata().get("retry-after-us")?.to_str().ok()?.parse().ok()?;
    Some(Span(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_errors_that_clients_understand() {
        let mut invalid = Status::invalid_argument("messages[0].content holds a NUL");
        invalid.metadata_mut().insert("param", "messages[0].content".parse().expect("text"));
        assert_eq!(
            failure(&invalid),
            ApiError::invalid("messages[0].content", "messages[0].content holds a NUL")
        );
        let mut busy = Status::resource_exhausted("32 of 32 are waiting");
        busy.metadata_mut().insert("retry-after-us", "2500000".parse().expect("text"));
        let retry_after = Some(Span::from_millis(2_500));
        assert_eq!(
            failure(&busy),
            ApiError::EngineBusy { message: "32 of 32 are waiting".into(), retry_after }
        );
        assert_eq!(failure(&Status::internal("a secret path")), ApiError::Internal);
    }
}
