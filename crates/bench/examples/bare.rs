//! The floor that a site is held against: hyper, MD5 and one plain file for each body, and nothing else.
//!
//! `bare ADDRESS DIRECTORY` answers PUT (hashed by MD5, written, synced before the answer), GET and HEAD of whole files, asks for no
//! signature, keeps no index and verifies nothing: what an S3 server has to do beside that is not in it. `journeys/beside.py --bare`
//! runs it beside the others, with the same client.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "plain files, beside no store")]

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use md5::{Digest as _, Md5};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// What is read of a file at once, as a site does. Of a connection the library reads as much as it will, where a site reads 64 KiB.
const PIECE: usize = 256 << 10;
/// Frames of one body on their way to its file.
const AHEAD: usize = 64;

type Body = BoxBody<Bytes, std::io::Error>;
type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("bare ADDRESS DIRECTORY".into());
    };
    let (address, directory): (SocketAddr, PathBuf) = (address.parse()?, directory.into());
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(listen(address, directory))
}

async fn listen(address: SocketAddr, directory: PathBuf) -> Result<(), Failed> {
    let (listener, directory) = (TcpListener::bind(address).await?, Arc::<Path>::from(directory));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let directory = Arc::clone(&directory);
        let service = service_fn(move |request| {
            let directory = Arc::clone(&directory);
            async move { Ok::<_, Infallible>(answer(request, &directory).await.unwrap_or_else(refuse)) }
        });
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(async move { http.serve_connection(TokioIo::new(stream), service).await });
    }
}

async fn answer(request: Request<Incoming>, directory: &Path) -> Result<Response<Body>, Failed> {
    let path = directory.join(request.uri().path().trim_matches('/').replace('/', "_"));
    match *request.method() {
        Method::PUT => put(request.into_body(), path).await,
        Method::GET => get(path, true).await,
        Method::HEAD => get(path, false).await,
        _ => Ok(said(StatusCode::NOT_IMPLEMENTED)),
    }
}

/// Writes a body to its file while it comes, and syncs it.
async fn put(mut body: Incoming, path: PathBuf) -> Result<Response<Body>, Failed> {
    let (pieces, mut come) = mpsc::channel::<Bytes>(AHEAD);
    let written = tokio::task::spawn_blocking(move || {
        let (mut file, mut hash) = (File::create(path)?, Md5::new());
        while let Some(piece) = come.blocking_recv() {
            hash.update(&piece);
            file.write_all(&piece)?;
        }
        file.sync_data()?;
        Ok::<_, std::io::Error>(hash.finalize())
    });
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame?.into_data() {
            pieces.send(piece).await?;
        }
    }
    drop(pieces);
    let hash = written.await??;
    let tag = skerry_base::hex::text(&hash);
    let mut response = said(StatusCode::OK);
    response.headers_mut().insert("etag", format!("\"{tag}\"").parse()?);
    Ok(response)
}

/// A file, piece by piece as it is taken.
async fn get(path: PathBuf, whole: bool) -> Result<Response<Body>, Failed> {
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok::<_, std::io::Error>((file, length))
    });
    let Ok((file, length)) = opened.await? else { return Ok(said(StatusCode::NOT_FOUND)) };
    let body = match whole {
        true => {
            BodyExt::boxed(StreamBody::new(stream::try_unfold((file, length), |(file, left)| async move {
                if left == 0 {
                    return Ok(None);
                }
                let (piece, file) = tokio::task::spawn_blocking(move || read(file, left))
                    .await
                    .map_err(std::io::Error::other)??;
                let left = left - piece.len() as u64;
                Ok(Some((Frame::data(piece), (file, left))))
            })))
        }
        false => nothing(),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-length", length.into());
    Ok(response)
}

fn read(mut file: File, left: u64) -> Result<(Bytes, File), std::io::Error> {
    let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
    file.read_exact(&mut piece)?;
    Ok((piece.into(), file))
}

fn nothing() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn said(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(nothing());
    *response.status_mut() = status;
    response
}

fn refuse(error: Failed) -> Response<Body> {
    eprintln!("{error}");
    said(StatusCode::INTERNAL_SERVER_ERROR)
}
