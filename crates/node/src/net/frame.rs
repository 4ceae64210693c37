//! Messages on a stream: four bytes of length (big endian), then that many bytes.
//!
//! Invariant: a message longer than the cap is refused before any of it is read or allocated.

use std::io;

use skerry_base::limits;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a message could not be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than this side takes.
    #[error("a message of {length} bytes; at most {most} are taken")]
    TooLong {
        /// What was announced.
        length: usize,
        /// The cap.
        most: usize,
    },
    /// The stream failed, or ended within a message.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes one message and flushes it. Refuses what is longer than [`limits::MESSAGE_BYTES`].
pub async fn write(
    stream: &mut (impl AsyncWrite + Unpin + ?Sized),
    message: &[u8],
) -> Result<(), FrameError> {
    let too_long = FrameError::TooLong { length: message.len(), most: limits::MESSAGE_BYTES };
    let length = match u32::try_from(message.len()) {
        Ok(length) if message.len() <= limits::MESSAGE_BYTES => length,
        _ => return Err(too_long),
    };
    // One write for small messages: they leave as one TLS record and one packet.
    if message.len() <= 16 << 10 {
        let mut whole = Vec::with_capacity(4 + message.len());
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(message);
        stream.write_all(&whole).await?;
    } else {
        stream.write_all(&length.to_be_bytes()).await?;
        stream.write_all(message).await?;
    }
    Ok(stream.flush().await?)
}

/// Reads one message of at most [`limits::MESSAGE_BYTES`]; `None` when the stream ended before one began.
pub async fn read(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<Option<Vec<u8>>, FrameError> {
    read_capped(stream, limits::MESSAGE_BYTES).await
}

/// Like [`read`] with a cap of the caller's.
pub async fn read_capped(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    most: usize,
) -> Result<Option<Vec<u8>>, FrameError> {
    match read_length(stream).await? {
        None => Ok(None),
        Some(length) if length > most => Err(FrameError::TooLong { length, most }),
        Some(length) => Ok(Some(read_message(stream, length).await?)),
    }
}

/// The first half of [`read`]: how long the next message is, so that there can be room for it before any of it is here.
pub(crate) async fn read_length(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
) -> Result<Option<usize>, FrameError> {
    let mut head = [0; 4];
    let first = stream.read(&mut head).await?;
    if first == 0 {
        return Ok(None);
    }
    if let Some(rest) = head.get_mut(first..) {
        stream.read_exact(rest).await?;
    }
    match (u32::from_be_bytes(head) as usize, limits::MESSAGE_BYTES) {
        (length, most) if length > most => Err(FrameError::TooLong { length, most }),
        (length, _) => Ok(Some(length)),
    }
}

/// The second half: the message that was announced.
pub(crate) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    length: usize,
) -> Result<Vec<u8>, FrameError> {
    // Grows with what really arrives: an announced length alone costs the peer nothing and must cost us nothing.
    let mut message = Vec::with_capacity(length.min(64 << 10));
    let got = AsyncReadExt::take(&mut *stream, length as u64).read_to_end(&mut message).await?;
    if got < length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended within a message").into());
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test]
    async fn messages_of_all_sizes_come_through() {
        for size in [0, 1, 4, 16 << 10, (16 << 10) + 1, limits::MESSAGE_BYTES] {
            let (mut a, mut b) = tokio::io::duplex(1000);
            let message: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let (sent, read) = tokio::join!(write(&mut a, &message), read(&mut b));
            sent.unwrap();
            assert_eq!(read.unwrap().unwrap(), message);
        }
    }

    #[tokio::test]
    async fn oversize_is_refused_on_both_sides_before_a_byte_of_it() {
        let (mut a, mut b) = tokio::io::duplex(100);
        let error = write(&mut a, &vec![0; limits::MESSAGE_BYTES + 1]).await.unwrap_err();
        assert!(matches!(error, FrameError::TooLong { .. }));
        a.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        assert!(matches!(read(&mut b).await, Err(FrameError::TooLong { length: 0xffff_ffff, .. })));
        a.write_all(&11_u32.to_be_bytes()).await.unwrap();
        assert!(matches!(read_capped(&mut b, 10).await, Err(FrameError::TooLong { length: 11, most: 10 })));
    }

    #[tokio::test]
    async fn an_end_between_messages_is_an_end_and_within_one_an_error() {
        let (a, mut b) = tokio::io::duplex(100);
        drop(a);
        assert!(read(&mut b).await.unwrap().is_none());
        for cut in [1, 3, 4, 6] {
            let (mut a, mut b) = tokio::io::duplex(100);
            a.write_all(&[0, 0, 0, 3, 1, 2, 3][..cut]).await.unwrap();
            drop(a);
            assert!(matches!(read(&mut b).await, Err(FrameError::Io(_))), "cut at {cut}");
        }
    }
}
