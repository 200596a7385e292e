//! The paths.
//!
//! Handlers are thin: they read what HTTP says, call the rest of the crate, and write HTTP. A wrong
//! method, an unknown path and a panic are answered here, in the same envelope as everything else.

mod answer;
mod chat;
mod completions;
mod health;
mod models;

use std::panic::AssertUnwindSafe;

use actix_web::{
    Error, HttpMessage as _, HttpResponse, Resource, ResponseError as _,
    body::BoxBody,
    dev::{HttpServiceFactory, ServiceRequest, ServiceResponse},
    middleware::{Next, from_fn},
    web::{self, ServiceConfig},
};
use futures_util::FutureExt as _;
use tracing::error;

use crate::{body::Lent, error::ApiError, metrics};

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";

/// All routes of the application.
pub(crate) fn configure(config: &mut ServiceConfig) {
    let get = |path, handler: actix_web::Route, head: actix_web::Route| {
        guarded(web::resource(path).route(handler).route(head), GET)
    };
    config
        .service(guarded(
            web::resource("/v1/chat/completions").route(web::post().to(chat::complete)),
            POST,
        ))
        .service(guarded(
            web::resource("/v1/completions").route(web::post().to(completions::complete)),
            POST,
        ))
        .service(get("/v1/models", web::get().to(models::list), web::head().to(models::list)))
        // An id may hold slashes, raw or encoded.
        .service(get("/v1/models/{id:.+}", web::get().to(models::one), web::head().to(models::one)))
        .service(get("/health", web::get().to(health::live), web::head().to(health::live)))
        .service(get("/ready", web::get().to(health::ready), web::head().to(health::ready)))
        .service(get("/metrics", web::get().to(health::metrics), web::head().to(health::metrics)))
        .service(get("/version", web::get().to(health::version), web::head().to(health::version)))
        .default_service(web::to(|| async { Err::<HttpResponse, _>(ApiError::NoRoute) }));
}

/// A resource that answers to other methods and to panics like a well-behaved one.
fn guarded(resource: Resource, allow: &'static str) -> impl HttpServiceFactory + 'static {
    resource
        .default_service(web::to(move || async move {
            Err::<HttpResponse, _>(ApiError::Method { allow })
        }))
        .wrap(from_fn(catch_panic))
}

async fn catch_panic(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let asked = request.request().clone();
    let (payload, lent) = Lent::out(request.take_payload());
    request.set_payload(payload);
    // What a panic leaves behind is dropped with the request: handlers share nothing they could
    // leave half-changed.
    match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => {
            error!(path = asked.path(), "a handler panicked");
            metrics::panicked();
            if let Some(lent) = lent {
                asked.extensions_mut().insert(lent.back());
            }
            Ok(ServiceResponse::new(asked, ApiError::Internal.error_response()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Unread;
    use actix_web::{App, test};

    async fn panics() -> HttpResponse {
        panic!("a secret")
    }

    #[actix_web::test]
    async fn a_panic_is_a_500_without_internals() {
        let route = web::resource("/").route(web::get().to(panics));
        let app = test::init_service(App::new().service(guarded(route, GET))).await;
        let response = test::call_service(&app, test::TestRequest::get().to_request()).await;
        assert_eq!(response.status(), 500);
        let body = test::read_body(response).await;
        assert!(body.starts_with(b"{\"error\":{\"message\":\"internal error\""), "{body:?}");
    }

    #[actix_web::test]
    async fn what_a_panic_leaves_unread_is_not_lost() {
        async fn reads_and_panics(mut payload: web::Payload) -> HttpResponse {
            let _ = futures_util::StreamExt::next(&mut payload).await;
            panic!("with a body in its hands")
        }
        let route = web::resource("/").route(web::post().to(reads_and_panics));
        let app = test::init_service(App::new().service(guarded(route, POST))).await;
        let (mut sender, payload) = actix_http::h1::Payload::create(false);
        sender.feed_data(web::Bytes::from_static(b"read"));
        let mut request = test::TestRequest::post().to_request();
        *request.payload() = actix_http::Payload::H1 { payload };
        let response = test::call_service(&app, request).await;
        assert_eq!(response.status(), 500);
        let unread: Option<Unread> = response.request().extensions_mut().remove();
        assert!(!sender.is_dropped(), "the server would read on for as long as the client sends");
        sender.feed_data(web::Bytes::from_static(b"unread"));
        sender.feed_eof();
        assert!(unread.expect("the body").drain(None).await);
    }
}
