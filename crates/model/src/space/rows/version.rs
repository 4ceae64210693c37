//! The value of a row of `Versions`: a record without what its key says.
//!
//! Why: the index is written several times over on its way through its levels, so a byte of a row costs many. Bucket, key,
//! clock and dot are read from the key; what most records say alike is said by a bit that is not set.
//!
//! Layout of version 2: the version, a varint of bits, the site, then what the bits name in the order below, each as postcard
//! has it. Version 1 is the whole record as feeds carry it: releases before 29 November wrote it, and it is read for ever.
//!
//! Invariants: equal records are equal values; what a key does not say alone is never left out.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{DecodeError, Versioned};
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Dot, Hlc, Origin, Vector, WallTime};

use super::super::{SpaceError, keys};
use super::etag;
use crate::object::{Headers, Object};
use crate::record::{Record, Statement};

const NAME: &str = "version row";
const VERSION: u8 = 2;
/// Room that a value begins with: most take no more.
const ENCODED: usize = 160;

/// What is not as it is of most records. The numbers are stored: the first seven fit one byte.
mod bit {
    pub(super) const CONTEXT: u32 = 1;
    pub(super) const WRITER: u32 = 1 << 1;
    pub(super) const VERSIONING: u32 = 1 << 2;
    pub(super) const SCOPE: u32 = 1 << 3;
    pub(super) const CONTENT_TYPE: u32 = 1 << 4;
    pub(super) const USER_METADATA: u32 = 1 << 5;
    pub(super) const CHECKSUMS: u32 = 1 << 6;
    /// Something else than a `Put`.
    pub(super) const STATEMENT: u32 = 1 << 7;
    pub(super) const KEEPS: u32 = 1 << 8;
    pub(super) const HOME: u32 = 1 << 9;
    pub(super) const PLACEMENT: u32 = 1 << 10;
    /// No MD5.
    pub(super) const ETAG: u32 = 1 << 11;
    /// Anything but one leaf that is the body.
    pub(super) const CHUNKS: u32 = 1 << 12;
    /// Others than the type.
    pub(super) const HEADERS: u32 = 1 << 13;
    pub(super) const PARTS: u32 = 1 << 14;
    pub(super) const DOCUMENT: u32 = 1 << 15;
    pub(super) const SEALED: u32 = 1 << 16;
    pub(super) const RETAIN_UNTIL: u32 = 1 << 17;
    pub(super) const LEGAL_HOLD: u32 = 1 << 18;
    pub(super) const TAGS: u32 = 1 << 19;
    pub(super) const ALL: u32 = (1 << 20) - 1;
}

/// An entry of a context. Most name the life that wrote the record, or an earlier one of the same node. The order is stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Seen {
    Own(u64),
    Node { incarnation: u64, seq: u64 },
    Other { origin: Origin, seq: u64 },
}

impl Seen {
    fn of((origin, seq): (Origin, u64), own: Origin) -> Self {
        let incarnation = origin.incarnation;
        match () {
            () if origin == own => Self::Own(seq),
            () if origin.node == own.node => Self::Node { incarnation, seq },
            () => Self::Other { origin, seq },
        }
    }

    const fn entry(self, own: Origin) -> (Origin, u64) {
        match self {
            Self::Own(seq) => (own, seq),
            Self::Node { incarnation, seq } => (Origin { node: own.node, incarnation }, seq),
            Self::Other { origin, seq } => (origin, seq),
        }
    }
}

/// What the key of a row says of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) bucket: BucketId,
    pub(crate) key: String,
    pub(crate) clock: Hlc,
    pub(crate) dot: Dot,
}

/// The chunk of a body that is one leaf as it is.
fn only_leaf(object: &Object) -> Option<ChunkId> {
    match object.chunks[..] {
        [ChunkRef { id, kind: ChunkKind::Leaf, stored, length }] => {
            (length == object.size && u64::from(stored) == length).then_some(id)
        }
        _ => None,
    }
}

fn leaf(id: ChunkId, size: u64) -> Option<ChunkRef> {
    let stored = u32::try_from(size).ok()?;
    Some(ChunkRef { id, kind: ChunkKind::Leaf, stored, length: size })
}

/// When it was accepted, by how much that is not the time of its clock.
pub(super) const fn lag(modified: WallTime, clock: Hlc) -> i64 {
    modified.0.wrapping_sub(clock.wall().0).cast_signed()
}

pub(super) const fn modified(lag: i64, clock: Hlc) -> WallTime {
    WallTime(clock.wall().0.wrapping_add(lag.cast_unsigned()))
}

/// A value in the making. What its bits name is appended beside them.
struct Writer {
    bits: u32,
    fields: Vec<u8>,
}

impl Writer {
    fn put(&mut self, field: &impl Serialize) {
        // Postcard into a Vec fails only for types whose length is unknown beforehand; none of ours is.
        self.fields = postcard::to_extend(field, core::mem::take(&mut self.fields)).unwrap_or_default();
    }

    /// A field that is named only if it is not as most have it.
    fn put_if(&mut self, is_named: bool, bit: u32, field: &impl Serialize) {
        if is_named {
            self.bits |= bit;
            self.put(field);
        }
    }

    fn put_some(&mut self, bit: u32, field: Option<&impl Serialize>) {
        if let Some(field) = field {
            self.put_if(true, bit, field);
        }
    }

    fn put_object(&mut self, object: &Object, clock: Hlc) {
        // Named one by one: a field that is new has to be dealt with here.
        let Object {
            size,
            etag,
            chunks,
            headers,
            user_metadata,
            checksums,
            part_count,
            parts,
            modified,
            document,
            sealed,
            retain_until,
            legal_hold,
            tags,
        } = object;
        self.put(size);
        self.put(&lag(*modified, clock));
        match etag::md5(etag) {
            Some(md5) => self.put(&md5),
            None => self.put_if(true, bit::ETAG, etag),
        }
        match only_leaf(object) {
            Some(id) => self.put(&id),
            None => self.put_if(true, bit::CHUNKS, chunks),
        }
        self.put_headers(headers);
        self.put_if(!user_metadata.is_empty(), bit::USER_METADATA, user_metadata);
        self.put_if(!checksums.is_empty(), bit::CHECKSUMS, checksums);
        self.put_if(*part_count != 0 || !parts.is_empty(), bit::PARTS, &(part_count, parts));
        self.put_some(bit::DOCUMENT, document.as_ref());
        self.put_some(bit::SEALED, sealed.as_ref());
        self.put_some(bit::RETAIN_UNTIL, retain_until.as_ref());
        self.put_some(bit::LEGAL_HOLD, legal_hold.as_ref());
        self.put_if(!tags.is_empty(), bit::TAGS, tags);
    }

    fn put_headers(&mut self, headers: &Headers) {
        let Headers {
            content_type,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
        } = headers;
        self.put_some(bit::CONTENT_TYPE, content_type.as_ref());
        let others = [
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
        ];
        self.put_if(others.iter().any(|header| header.is_some()), bit::HEADERS, &others);
    }
}

/// The value of the row of a record.
pub(crate) fn encode(record: &Record) -> Vec<u8> {
    // Those of the key are left out, and no others.
    let Record {
        bucket: _,
        dot,
        key: _,
        clock,
        context,
        versioning,
        keeps,
        scope,
        home,
        placement,
        writer,
        site,
        statement,
    } = record;
    let mut row = Writer { bits: 0, fields: Vec::with_capacity(ENCODED) };
    row.put(site);
    let seen: Vec<Seen> = context.iter().map(|entry| Seen::of(entry, dot.origin)).collect();
    row.put_if(!seen.is_empty(), bit::CONTEXT, &seen);
    row.put_if(!writer.is_empty(), bit::WRITER, writer);
    row.put_if(*versioning != <_>::default(), bit::VERSIONING, versioning);
    row.put_if(*scope != <_>::default(), bit::SCOPE, scope);
    row.put_if(!keeps.is_empty(), bit::KEEPS, keeps);
    row.put_some(bit::HOME, home.as_ref());
    row.put_some(bit::PLACEMENT, placement.as_ref());
    match statement {
        Statement::Put(object) => row.put_object(object, *clock),
        other => row.put_if(true, bit::STATEMENT, other),
    }
    let mut bytes = Vec::with_capacity(row.fields.len() + 4);
    bytes.push(VERSION);
    bytes = postcard::to_extend(&row.bits, bytes).unwrap_or_default();
    bytes.extend_from_slice(&row.fields);
    bytes
}

fn malformed(reason: impl ToString) -> DecodeError {
    DecodeError::Malformed { name: NAME, reason: reason.to_string() }
}

/// A value that is read field by field.
struct Reader<'a> {
    bits: u32,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<T: DeserializeOwned>(&mut self) -> Result<T, DecodeError> {
        let (field, rest) = postcard::take_from_bytes(self.rest).map_err(malformed)?;
        self.rest = rest;
        Ok(field)
    }

    fn has(&self, bit: u32) -> bool {
        self.bits & bit != 0
    }

    fn some<T: DeserializeOwned>(&mut self, bit: u32) -> Result<Option<T>, DecodeError> {
        self.has(bit).then(|| self.take()).transpose()
    }

    fn or_default<T: DeserializeOwned + Default>(&mut self, bit: u32) -> Result<T, DecodeError> {
        Ok(self.some(bit)?.unwrap_or_default())
    }

    /// The record; fields in the order in which [`encode`] puts them.
    fn record(&mut self, named: Named) -> Result<Record, DecodeError> {
        let Named { bucket, key, clock, dot } = named;
        let site = self.take()?;
        let seen: Vec<Seen> = self.or_default(bit::CONTEXT)?;
        let context: Vector = seen.into_iter().map(|seen| seen.entry(dot.origin)).collect();
        Ok(Record {
            bucket,
            dot,
            key,
            clock,
            context,
            writer: self.or_default(bit::WRITER)?,
            versioning: self.or_default(bit::VERSIONING)?,
            scope: self.or_default(bit::SCOPE)?,
            keeps: self.or_default(bit::KEEPS)?,
            home: self.some(bit::HOME)?,
            placement: self.some(bit::PLACEMENT)?,
            site,
            statement: self.statement(clock)?,
        })
    }

    fn statement(&mut self, clock: Hlc) -> Result<Statement, DecodeError> {
        match self.some(bit::STATEMENT)? {
            Some(statement) => Ok(statement),
            None => Ok(Statement::Put(Box::new(self.object(clock)?))),
        }
    }

    fn object(&mut self, clock: Hlc) -> Result<Object, DecodeError> {
        let size = self.take()?;
        let modified = modified(self.take()?, clock);
        let etag = match self.has(bit::ETAG) {
            true => self.take()?,
            false => etag::of_md5(self.take()?),
        };
        let chunks = match self.has(bit::CHUNKS) {
            true => self.take()?,
            false => vec![leaf(self.take()?, size).ok_or_else(|| malformed("a leaf too large"))?],
        };
        let headers = self.headers()?;
        let (user_metadata, checksums) =
            (self.or_default(bit::USER_METADATA)?, self.or_default(bit::CHECKSUMS)?);
        let (part_count, parts) = self.or_default(bit::PARTS)?;
        Ok(Object {
            size,
            etag,
            chunks,
            headers,
            user_metadata,
            checksums,
            part_count,
            parts,
            modified,
            document: self.some(bit::DOCUMENT)?,
            sealed: self.some(bit::SEALED)?,
            retain_until: self.some(bit::RETAIN_UNTIL)?,
            legal_hold: self.some(bit::LEGAL_HOLD)?,
            tags: self.or_default(bit::TAGS)?,
        })
    }

    fn headers(&mut self) -> Result<Headers, DecodeError> {
        let content_type = self.some(bit::CONTENT_TYPE)?;
        let [
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
        ]: [Option<String>; 6] = self.or_default(bit::HEADERS)?;
        Ok(Headers {
            content_type,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
        })
    }
}

/// The record of a row, of which what its key says is known. Of version 1 the value says it, too.
pub(crate) fn decode_named(named: Named, value: &[u8]) -> Result<Record, DecodeError> {
    let rest = match value.split_first() {
        None => return Err(malformed("empty")),
        Some((&Record::VERSION, _)) => return Record::decode(value),
        Some((&VERSION, rest)) => rest,
        Some((&found, _)) => return Err(DecodeError::Version { name: NAME, found, known: VERSION }),
    };
    let mut reader = Reader { bits: 0, rest };
    reader.bits = reader.take()?;
    if reader.bits & !bit::ALL != 0 {
        return Err(malformed("a bit that says nothing"));
    }
    let record = reader.record(named)?;
    match reader.rest {
        [] => Ok(record),
        rest => Err(malformed(format!("{} bytes too many", rest.len()))),
    }
}

/// The record of a row.
pub(crate) fn decode(name: &[u8], value: &[u8]) -> Result<Record, SpaceError> {
    if value.first() == Some(&Record::VERSION) {
        return Ok(Record::decode(value)?);
    }
    let named = keys::split_version(name).ok_or(SpaceError::Inconsistent("a version has no key"))?;
    Ok(decode_named(named, value)?)
}
