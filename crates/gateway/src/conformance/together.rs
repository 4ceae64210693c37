//! Uploads that share one connection of HTTP/2.

use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2;
use hyper::header::HOST;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::client::{Answer, Ask, Client};

impl Client {
    /// Puts these bodies at these targets, all at once over one connection; what each was answered, in order.
    pub async fn put_together(&self, puts: Vec<(String, Bytes)>) -> Result<Vec<Answer>, String> {
        let error = |error: &dyn core::fmt::Display| error.to_string();
        let stream = TcpStream::connect(self.authority()).await.map_err(|e| error(&e))?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|e| error(&e))?;
        let put = |(target, body): (String, Bytes)| {
            let (mut sender, request) = (sender.clone(), self.put_over_2(target, body));
            async move {
                let response = sender.send_request(request?).await.map_err(|e| error(&e))?;
                let (parts, body) = response.into_parts();
                let body = body.collect().await.map_err(|e| error(&e))?.to_bytes();
                Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
            }
        };
        let answers = join_all(puts.into_iter().map(put));
        // The connection only moves while it is polled.
        let driven = async {
            let _ = connection.await;
            core::future::pending::<()>().await;
        };
        tokio::select! {
            answers = answers => answers.into_iter().collect(),
            () = driven => Err("the connection ended".into()),
        }
    }

    fn put_over_2(&self, target: String, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut ask = Ask { payload: Some("UNSIGNED-PAYLOAD"), ..Ask::new("PUT", target).body(body) };
        self.seal(&mut ask);
        // What is signed as the host goes as `:authority`.
        ask.headers.remove(HOST);
        let uri = format!("http://{}{}", self.authority(), ask.target);
        let mut request = Request::builder().method(ask.method).uri(uri);
        if let Some(headers) = request.headers_mut() {
            headers.extend(ask.headers);
        }
        request.body(Full::new(ask.body)).map_err(|error| error.to_string())
    }
}
