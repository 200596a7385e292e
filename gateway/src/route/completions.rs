//! `POST /v1/completions`.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Payload, ReqData},
};

use super::answer;
use crate::{edge::Arrival, error::ApiError, openai::Endpoint, shared::Gateway};

/// Continues prompts, in one piece or as a stream.
pub(crate) async fn complete(
    request: HttpRequest,
    payload: Payload,
    gateway: Data<Gateway>,
    arrival: ReqData<Arrival>,
) -> Result<HttpResponse, ApiError> {
    answer::answer(Endpoint::Completions, &request, payload, &gateway, *arrival).await
}
