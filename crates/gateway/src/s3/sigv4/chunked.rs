//! The `aws-chunked` encoding: chunks with or without signatures, then perhaps trailers.
//!
//! Invariants: payload passes on as it comes, whatever the size of its chunk; at most [`LINE`] bytes of a
//! chunk head and [`TRAILERS`] bytes of trailers are held; a body without its last chunk is incomplete; a
//! chunk's signature is checked before the next chunk is read, and the caller commits only after the end.

use bytes::{Buf, Bytes};
use sha2::{Digest, Sha256};
use skerry_base::hex;

use super::SigningKey;
use crate::service::{ErrorKind, Outcome, ServiceError};

/// Bytes of a chunk head: a length and a signature.
const LINE: usize = 256;
/// Bytes of all trailers.
const TRAILERS: usize = 8 << 10;

/// What the signatures of chunks are chained from.
#[derive(Debug, Clone)]
pub(crate) struct ChunkKeys {
    pub(super) key: SigningKey,
    pub(super) stamp: String,
    pub(super) scope: String,
    pub(super) previous: String,
}

impl ChunkKeys {
    fn check(&mut self, kind: &str, middle: &str, hash: &str, signature: &[u8; 32]) -> Outcome<()> {
        let text = format!("{kind}\n{}\n{}\n{}\n{middle}{hash}", self.stamp, self.scope, self.previous);
        if !self.key.verify(&text, signature) {
            return Err(ServiceError::new(
                ErrorKind::SignatureDoesNotMatch,
                "the signature of a chunk is not that of its bytes; send the body again",
            ));
        }
        self.previous = hex::text(signature);
        Ok(())
    }

    fn check_chunk(&mut self, data: Sha256, signature: &[u8; 32]) -> Outcome<()> {
        let empty = format!("{}\n", hex::text(&Sha256::digest([])));
        self.check("AWS4-HMAC-SHA256-PAYLOAD", &empty, &hex::text(&data.finalize()), signature)
    }

    fn check_trailers(&mut self, trailers: &[(String, String)], signature: &[u8; 32]) -> Outcome<()> {
        let text: String = trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        self.check("AWS4-HMAC-SHA256-TRAILER", "", &hex::text(&Sha256::digest(text)), signature)
    }
}

#[derive(Debug)]
enum State {
    /// The line with the length.
    Head(Vec<u8>),
    /// Payload.
    Data { left: u64, hash: Sha256, signature: Option<[u8; 32]> },
    /// The line end behind payload: how many of its two bytes came.
    End(usize),
    /// All that follows the last chunk.
    Trailers(Vec<u8>),
}

/// Decodes a body, slice by slice.
#[derive(Debug)]
pub(crate) struct Decoder {
    keys: Option<ChunkKeys>,
    announced: Vec<String>,
    state: State,
}

impl Decoder {
    /// With keys every chunk must be signed. `announced` are the names in `x-amz-trailer`, lower-case.
    pub(crate) const fn new(keys: Option<ChunkKeys>, announced: Vec<String>) -> Self {
        Self { keys, announced, state: State::Head(Vec::new()) }
    }

    /// Takes from `input` and answers the next payload, or nothing if `input` is used up.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Outcome<Option<Bytes>> {
        while !input.is_empty() {
            let (state, payload) = self.step(input)?;
            self.state = state;
            if payload.is_some() {
                return Ok(payload);
            }
        }
        Ok(None)
    }

    fn step(&mut self, input: &mut Bytes) -> Outcome<(State, Option<Bytes>)> {
        match core::mem::replace(&mut self.state, State::End(0)) {
            State::Head(line) => Ok((self.head(line, input)?, None)),
            State::Data { left, mut hash, signature } => {
                let payload = input.split_to(usize::try_from(left).unwrap_or(usize::MAX).min(input.len()));
                let left = left - payload.len() as u64;
                if self.keys.is_some() {
                    hash.update(&payload);
                }
                if left > 0 {
                    return Ok((State::Data { left, hash, signature }, Some(payload)));
                }
                self.check_chunk(hash, signature)?;
                Ok((State::End(0), Some(payload)))
            }
            State::End(seen) => {
                let wanted = if seen == 0 { b'\r' } else { b'\n' };
                if input.get_u8() != wanted {
                    return Err(broken("a chunk is longer than its announced length"));
                }
                Ok((if seen == 0 { State::End(1) } else { State::Head(Vec::new()) }, None))
            }
            State::Trailers(mut held) => {
                if held.len() + input.len() > TRAILERS {
                    return Err(broken("the trailers are too long"));
                }
                held.extend_from_slice(&input.split_off(0));
                Ok((State::Trailers(held), None))
            }
        }
    }

    fn head(&mut self, mut line: Vec<u8>, input: &mut Bytes) -> Outcome<State> {
        while !input.is_empty() && line.last() != Some(&b'\n') {
            if line.len() >= LINE {
                return Err(broken("the head of a chunk is too long"));
            }
            line.push(input.get_u8());
        }
        if line.last() != Some(&b'\n') {
            return Ok(State::Head(line));
        }
        let (length, signature) =
            parse_head(&line).ok_or_else(|| broken("the head of a chunk cannot be read"))?;
        if self.keys.is_some() && signature.is_none() {
            return Err(broken("a chunk is not signed"));
        }
        if length > 0 {
            return Ok(State::Data { left: length, hash: Sha256::new(), signature });
        }
        self.check_chunk(Sha256::new(), signature)?;
        Ok(State::Trailers(Vec::new()))
    }

    fn check_chunk(&mut self, hash: Sha256, signature: Option<[u8; 32]>) -> Outcome<()> {
        match (&mut self.keys, signature) {
            (Some(keys), Some(signature)) => keys.check_chunk(hash, &signature),
            _ => Ok(()),
        }
    }

    /// The body is at its end: the trailers, checked.
    pub(crate) fn finish(self) -> Outcome<Vec<(String, String)>> {
        let State::Trailers(held) = self.state else {
            return Err(ServiceError::new(
                ErrorKind::IncompleteBody,
                "the body ended before its last chunk; send it again",
            ));
        };
        let mut trailers = parse_trailers(&held).ok_or_else(|| broken("the trailers cannot be read"))?;
        let signature = trailers.iter().position(|(name, _)| name == "x-amz-trailer-signature");
        let signature = signature.map(|index| trailers.swap_remove(index).1);
        trailers.sort();
        if let Some((name, _)) = trailers.iter().find(|(name, _)| !self.announced.contains(name)) {
            return Err(broken(&format!("the trailer {name} was not announced in x-amz-trailer")));
        }
        if let Some(mut keys) = self.keys.filter(|_| !self.announced.is_empty()) {
            let signature = signature.and_then(|text| hex::parse(&text).ok());
            let signature = signature.ok_or_else(|| broken("the trailers are not signed"))?;
            keys.check_trailers(&trailers, &signature)?;
        }
        Ok(trailers)
    }
}

fn broken(what: &str) -> ServiceError {
    ServiceError::new(ErrorKind::InvalidRequest, format!("the aws-chunked body is broken: {what}"))
}

/// `1a2b;chunk-signature=…` with its line end.
fn parse_head(line: &[u8]) -> Option<(u64, Option<[u8; 32]>)> {
    let text = core::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let (length, extension) = match text.split_once(';') {
        Some((length, extension)) => (length, Some(extension)),
        None => (text, None),
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let signature = match extension {
        Some(extension) => Some(hex::parse(extension.strip_prefix("chunk-signature=")?).ok()?),
        None => None,
    };
    Some((u64::from_str_radix(length, 16).ok()?, signature))
}

/// Lines of `name:value`; lower-case names.
fn parse_trailers(held: &[u8]) -> Option<Vec<(String, String)>> {
    let lines = core::str::from_utf8(held).ok()?.split('\n').map(|line| line.trim_matches(['\r', ' ']));
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    lines.filter(|line| !line.is_empty()).map(pair).collect()
}
