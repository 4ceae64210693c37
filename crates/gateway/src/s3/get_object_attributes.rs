//! GetObjectAttributes: what is known of an object, as a document.
//!
//! Parts are counted; S3 lists them where each has a checksum of its own, and here none is kept.

use s3s::{dto, xml};

use super::documents::{count, shape};
use super::get_object::about;
use super::reply::{Reply, value_of};
use super::{Call, headers};
use crate::service::{ChecksumKind, ErrorKind, ObjectInfo, Outcome, ServiceError, Services, date};

/// Names of what can be asked for.
const NAMES: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];

/// Those that the request names, of an object that exists.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let wanted = wanted(&call)?;
    check_page(&call)?;
    let head = services.objects.head(&call.context, about(&call)?).await?;
    let document = Attributes { wanted, info: &head.info };
    Ok(Reply::xml(&document)?
        .with("last-modified", date::http(head.info.modified))
        .with_version(head.info.version.as_ref())
        .with_receipt(&head.info.receipt))
}

fn wanted(call: &Call) -> Outcome<Vec<&'static str>> {
    let mut wanted = Vec::new();
    for value in call.headers.get_all("x-amz-object-attributes") {
        let text = value.to_str().map_err(|_| headers::argument("x-amz-object-attributes", "is not text"))?;
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let known = NAMES.into_iter().find(|one| *one == name);
            wanted.push(known.ok_or_else(|| {
                ServiceError::new(ErrorKind::InvalidArgument, "Invalid attribute name specified.")
            })?);
        }
    }
    match wanted.is_empty() {
        true => Err(headers::argument("x-amz-object-attributes", "names no attribute")),
        false => Ok(wanted),
    }
}

/// Which of the parts are listed; they are only counted.
fn check_page(call: &Call) -> Outcome<()> {
    for name in ["x-amz-max-parts", "x-amz-part-number-marker"] {
        if headers::text(&call.headers, name)?.is_some_and(|number| number.parse::<u32>().is_err()) {
            return Err(headers::argument(name, "is not a number"));
        }
    }
    Ok(())
}

struct Attributes<'a> {
    wanted: Vec<&'static str>,
    info: &'a ObjectInfo,
}

impl Attributes<'_> {
    fn wants(&self, name: &str) -> bool {
        self.wanted.contains(&name)
    }

    fn checksum(&self) -> Option<dto::Checksum> {
        let sums = &self.info.checksums;
        let first = sums.first().filter(|_| self.wants("Checksum"))?;
        Some(dto::Checksum {
            checksum_crc32: value_of(sums, ChecksumKind::Crc32),
            checksum_crc32c: value_of(sums, ChecksumKind::Crc32c),
            checksum_crc64nvme: value_of(sums, ChecksumKind::Crc64Nvme),
            checksum_sha1: value_of(sums, ChecksumKind::Sha1),
            checksum_sha256: value_of(sums, ChecksumKind::Sha256),
            checksum_type: Some(shape(first.shape)),
        })
    }

    fn parts(&self) -> Option<dto::GetObjectAttributesParts> {
        let parts = count(self.info.parts.len()).filter(|count| *count > 0 && self.wants("ObjectParts"));
        parts.map(|total| dto::GetObjectAttributesParts {
            total_parts_count: Some(total),
            ..dto::GetObjectAttributesParts::default()
        })
    }
}

impl xml::Serialize for Attributes<'_> {
    fn serialize<W: std::io::Write>(&self, out: &mut xml::Serializer<W>) -> xml::SerResult {
        let name_space = "http://s3.amazonaws.com/doc/2006-03-01/";
        out.content_with_ns("GetObjectAttributesResponse", name_space, self)
    }
}

impl xml::SerializeContent for Attributes<'_> {
    fn serialize_content<W: std::io::Write>(&self, out: &mut xml::Serializer<W>) -> xml::SerResult {
        if self.wants("ETag") {
            // Without the quotes that it has everywhere else, as S3 writes it.
            out.content("ETag", self.info.etag.as_str())?;
        }
        if let Some(checksum) = self.checksum() {
            out.content("Checksum", &checksum)?;
        }
        if let Some(parts) = self.parts() {
            out.content("ObjectParts", &parts)?;
        }
        if self.wants("StorageClass") {
            out.content("StorageClass", dto::StorageClass::STANDARD)?;
        }
        if self.wants("ObjectSize") {
            out.content("ObjectSize", self.info.size.to_string().as_str())?;
        }
        Ok(())
    }
}
