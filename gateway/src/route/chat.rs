//! `POST /v1/chat/completions`.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Payload, ReqData},
};

use super::answer;
use crate::{edge::Arrival, error::ApiError, openai::Endpoint, shared::Gateway};

/// Answers a conversation, in one piece or as a stream.
pub(crate) async fn complete(
    request: HttpRequest,
    payload: Payload,
    gateway: Data<Gateway>,
    arrival: ReqData<Arrival>,
) -> Result<HttpResponse, ApiError> {
    answer::answer(Endpoint::Chat, &request, payload, &gateway, *arrival).await
}
