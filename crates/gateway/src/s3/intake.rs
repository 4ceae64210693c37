//! From the body on the connection to the body a service reads: chunks decoded, limits and digests attached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use skerry_base::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::headers;
use super::sigv4::{ChunkKeys, Decoder, Payload};
use crate::http::body::Inflow;
use crate::service::{
    Bound, ErrorKind, Expected, Outcome, Places, Reason, ServiceError, Trailers, UploadBody,
};

/// A document up to here takes no room: most are smaller, and a connection is worth as much.
const SMALL: usize = 16 << 10;
/// How long a document that has its room may take to come.
const WHOLE: Duration = Duration::from_secs(60);
/// How long a document waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory for the documents of requests. Clones are the same room.
#[derive(Debug, Clone)]
pub struct Documents {
    bytes: u32,
    room: Arc<Semaphore>,
}

/// The room of one document; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Documents {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = u32::try_from(bytes.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { bytes, room: Arc::new(Semaphore::new(bytes as usize)) }
    }

    /// How much of it is taken.
    pub(super) fn bound(&self) -> Bound {
        let (most, free) = (u64::from(self.bytes), self.room.available_permits() as u64);
        Bound::bytes("documents", most, most.saturating_sub(free))
    }

    /// For a document of this length: twice that, as it came and as it is read. One that is larger than the room has
    /// all of it.
    async fn take(&self, length: usize) -> Outcome<Place> {
        let wanted = u32::try_from(length.saturating_mul(2)).unwrap_or(u32::MAX).min(self.bytes);
        let permits = self.room.clone().acquire_many_owned(wanted);
        let full = || {
            let message = "the documents of other requests take all the memory there is for them; try again";
            ServiceError::full(Reason::Documents, message)
        };
        let granted = tokio::time::timeout(PATIENCE, permits).await.map_err(|_| full())?;
        granted.map(Place).map_err(|_| full())
    }
}

/// Reads to the end, or until there are more bytes than these.
async fn gather(body: &mut UploadBody, document: &mut BytesMut, enough: usize) -> Outcome<()> {
    while document.len() <= enough {
        match body.next().await {
            Some(bytes) => document.extend_from_slice(&bytes?),
            None => break,
        }
    }
    Ok(())
}

fn too_slow() -> ServiceError {
    let message = format!("the document of this request did not come within {} s", WHOLE.as_secs());
    ServiceError::new(ErrorKind::RequestTimeout, message)
}

/// What a request says about its body, and the body.
pub(super) struct Intake<'a> {
    pub(super) payload: Payload,
    pub(super) keys: ChunkKeys,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Inflow,
    /// Where it may stand unread, if it shares its connection.
    pub(super) places: Option<Places>,
}

impl Intake<'_> {
    /// A body that streams to the service: its length must be announced and within one PUT.
    pub(super) fn upload(self) -> Outcome<UploadBody> {
        let Some(length) = self.length()? else {
            return Err(ServiceError::new(
                ErrorKind::MissingContentLength,
                "You must provide the Content-Length HTTP header, or x-amz-decoded-content-length for a chunked body.",
            ));
        };
        if length > limits::PUT_BYTES {
            return Err(ServiceError::new(
                ErrorKind::EntityTooLarge,
                format!("one PUT carries at most {} bytes; use a multipart upload", limits::PUT_BYTES),
            ));
        }
        let expected =
            Expected { checksum: headers::declared(self.headers)?, ..self.expected(Some(length))? };
        self.body(expected)
    }

    /// A document, whole, of at most `limit` bytes, and the room it takes. `summed`: the checksum headers are of this body.
    pub(super) async fn document(
        self,
        limit: usize,
        summed: bool,
        room: &Documents,
    ) -> Outcome<(Bytes, Option<Place>)> {
        let length = self.length()?;
        let too_long = || {
            ServiceError::new(
                ErrorKind::MaxMessageLengthExceeded,
                format!("the document of this request may have {limit} bytes; ask for less at once"),
            )
        };
        if length.is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let checksum = if summed { headers::declared(self.headers)? } else { None };
        let expected = Expected { checksum, ..self.expected(length)? };
        let mut body = self.body(expected)?;
        let mut document = BytesMut::new();
        let mut place = None;
        gather(&mut body, &mut document, SMALL.min(limit)).await?;
        if document.len() > SMALL {
            let length = length.map_or(limit, |length| usize::try_from(length).unwrap_or(limit));
            place = Some(body.take_standing().wait(room.take(length)).await??);
            // Others wait for the room.
            let rest = gather(&mut body, &mut document, limit);
            tokio::time::timeout(WHOLE, rest).await.map_err(|_| too_slow())??;
        }
        if document.len() > limit {
            return Err(too_long());
        }
        body.finish()?;
        Ok((document.freeze(), place))
    }

    fn length(&self) -> Outcome<Option<u64>> {
        match self.payload {
            Payload::Chunked { .. } => headers::decoded_length(self.headers),
            _ => headers::content_length(self.headers),
        }
    }

    fn expected(&self, length: Option<u64>) -> Outcome<Expected> {
        let sha256 = match self.payload {
            Payload::Hash(hash) => Some(hash),
            _ => None,
        };
        let md5 = headers::content_md5(self.headers)?;
        Ok(Expected { length, md5, sha256, checksum: None, trailers: None })
    }

    fn body(self, expected: Expected) -> Outcome<UploadBody> {
        let Payload::Chunked { signed, trailer } = self.payload else {
            return Ok(UploadBody::new(plain(self.body), expected).among(self.places));
        };
        let announced = if trailer { headers::trailer_names(self.headers)? } else { Vec::new() };
        let decoder = Decoder::new(signed.then_some(self.keys), announced);
        let (trailers, read) = trailer_slot();
        let expected = Expected { trailers: Some(read), ..expected };
        Ok(UploadBody::new(chunked(self.body, decoder, trailers), expected).among(self.places))
    }
}

type Slot = Arc<Mutex<Vec<(String, String)>>>;

/// Where the decoder leaves the trailers, and how the end of the body reads them.
fn trailer_slot() -> (Slot, Trailers) {
    let slot = Slot::default();
    let reader = Arc::clone(&slot);
    let read = move || core::mem::take(&mut *reader.lock().unwrap_or_else(PoisonError::into_inner));
    (slot, Box::new(read))
}

/// The data frames of a body.
fn plain(body: Inflow) -> impl futures::Stream<Item = Outcome<Bytes>> + Send {
    stream::try_unfold(body, |mut body| async move { Ok(data(&mut body).await?.map(|bytes| (bytes, body))) })
}

async fn data(body: &mut Inflow) -> Outcome<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

struct Chunked {
    body: Inflow,
    input: Bytes,
    /// Gone once the end was checked.
    decoder: Option<Decoder>,
    trailers: Slot,
}

fn chunked(
    body: Inflow,
    decoder: Decoder,
    trailers: Slot,
) -> impl futures::Stream<Item = Outcome<Bytes>> + Send {
    let state = Chunked { body, input: Bytes::new(), decoder: Some(decoder), trailers };
    stream::try_unfold(state, |mut state| async move { Ok(state.next().await?.map(|bytes| (bytes, state))) })
}

impl Chunked {
    async fn next(&mut self) -> Outcome<Option<Bytes>> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        loop {
            if let Some(bytes) = decoder.next(&mut self.input)? {
                self.decoder = Some(decoder);
                return Ok(Some(bytes));
            }
            match data(&mut self.body).await? {
                Some(bytes) => self.input = bytes,
                None => {
                    let found = decoder.finish()?;
                    *self.trailers.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn documents_wait_for_room_and_one_that_is_larger_than_all_of_it_takes_all() {
        let room = Documents::new(100);
        let one = room.take(20).now_or_never();
        let other = room.take(30).now_or_never();
        assert!(matches!((&one, &other), (Some(Ok(_)), Some(Ok(_)))));
        assert!(room.take(1).now_or_never().is_none());
        drop(one);
        assert!(room.take(20).now_or_never().is_some());
        assert!(room.take(1 << 20).now_or_never().is_none());
        drop(other);
        assert!(room.take(1 << 20).now_or_never().is_some());
    }
}
