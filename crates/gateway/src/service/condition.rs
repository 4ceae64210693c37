//! Conditions of requests: `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`.

use skerry_base::WallTime;

use super::{ErrorKind, Outcome, ServiceError, date};

/// What an ETag is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtagTest {
    /// `*`: any version that exists.
    Any,
    /// One of these, unquoted.
    OneOf(Vec<String>),
}

impl EtagTest {
    /// Reads a header: `*`, or ETags separated by commas, quoted or not, weak ones by their text.
    pub fn parse(header: &str) -> Self {
        let header = header.trim();
        if header == "*" {
            return Self::Any;
        }
        let bare = |text: &str| {
            let text = text.trim();
            text.strip_prefix("W/").unwrap_or(text).trim_matches('"').to_owned()
        };
        Self::OneOf(header.split(',').map(bare).filter(|text| !text.is_empty()).collect())
    }

    /// Whether this ETag passes.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(list) => list.iter().any(|one| one == etag),
        }
    }
}

/// Conditions of a read, or of the source of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadConditions {
    /// `If-Match`.
    pub if_match: Option<EtagTest>,
    /// `If-None-Match`.
    pub if_none_match: Option<EtagTest>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<WallTime>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<WallTime>,
}

impl ReadConditions {
    /// For a read, in the order of RFC 9110 §13.2.2: an ETag test makes the date beside it idle.
    pub fn check(&self, etag: &str, modified: WallTime) -> Outcome<()> {
        self.check_positive(etag, modified)?;
        if self.unchanged(etag, modified) {
            return Err(ServiceError::new(ErrorKind::NotModified, "what you have is current")
                .with_header("etag", format!("\"{etag}\""))
                .with_header("last-modified", date::http(modified)));
        }
        Ok(())
    }

    /// For the source of a copy: what would be 304 on a read is `PreconditionFailed`.
    pub fn check_source(&self, etag: &str, modified: WallTime) -> Outcome<()> {
        self.check_positive(etag, modified)?;
        if self.unchanged(etag, modified) {
            Err(failed("the source is what you have already"))
        } else {
            Ok(())
        }
    }

    fn check_positive(&self, etag: &str, modified: WallTime) -> Outcome<()> {
        match (&self.if_match, self.if_unmodified_since) {
            (Some(test), _) if test.matches(etag) => Ok(()),
            (Some(_), _) => Err(failed("the object's ETag is not the one in If-Match; read it again")),
            (None, Some(date)) if seconds(modified) > seconds(date) => {
                Err(failed("the object was written after If-Unmodified-Since; read it again"))
            }
            _ => Ok(()),
        }
    }

    fn unchanged(&self, etag: &str, modified: WallTime) -> bool {
        match (&self.if_none_match, self.if_modified_since) {
            (Some(test), _) => test.matches(etag),
            (None, Some(date)) => seconds(modified) <= seconds(date),
            (None, None) => false,
        }
    }
}

/// An `If-Range` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfRange {
    /// This ETag; a weak one never holds.
    Etag(String),
    /// Written exactly then.
    Date(WallTime),
}

impl IfRange {
    /// Reads a header.
    pub fn parse(header: &str) -> Self {
        match date::parse_http(header.trim()) {
            Some(date) => Self::Date(date),
            None => Self::Etag(header.trim().trim_matches('"').to_owned()),
        }
    }

    /// Whether the range counts.
    pub fn holds(&self, etag: &str, modified: WallTime) -> bool {
        match self {
            Self::Etag(wanted) => wanted == etag,
            Self::Date(date) => seconds(*date) == seconds(modified),
        }
    }
}

/// HTTP dates have whole seconds.
const fn seconds(time: WallTime) -> u64 {
    time.0 / 1000
}

fn failed(message: &str) -> ServiceError {
    ServiceError::new(ErrorKind::PreconditionFailed, message)
}

/// Condition of a write; the service decides it atomically with the write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteCondition {
    /// `If-None-Match: *`: the key must have no current object.
    pub absent: bool,
    /// `If-Match`: the current object must be this one.
    pub matches: Option<EtagTest>,
}

impl WriteCondition {
    /// Whether there is nothing to decide.
    pub const fn is_none(&self) -> bool {
        !self.absent && self.matches.is_none()
    }

    /// Decides against the ETag of the current object of the key, if there is one; a delete like any other write.
    pub fn check(&self, key: &str, current: Option<&str>) -> Outcome<()> {
        match (current, &self.matches) {
            (Some(_), _) if self.absent => {
                Err(failed("the key has an object already and If-None-Match asked for none"))
            }
            (None, Some(_)) => Err(ServiceError::no_such_key(key)),
            (Some(etag), Some(test)) if !test.matches(etag) => {
                Err(failed("the object's ETag is not the one in If-Match; read it again"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const TIME: WallTime = WallTime(1_700_000_000_500);

    fn kind(conditions: &ReadConditions) -> Option<ErrorKind> {
        conditions.check("abc", TIME).err().map(|error| error.kind())
    }

    #[test]
    fn etags_parse_quoted_bare_weak_and_in_lists() {
        assert_eq!(EtagTest::parse(" * "), EtagTest::Any);
        assert_eq!(
            EtagTest::parse("\"a\", W/\"b\",c"),
            EtagTest::OneOf(vec!["a".into(), "b".into(), "c".into()])
        );
    }

    #[test]
    fn an_etag_test_makes_the_date_idle() {
        let old = Some(WallTime(1_000));
        let etag = |text: &str| Some(EtagTest::parse(text));
        let base = ReadConditions::default();
        assert_eq!(
            kind(&ReadConditions { if_match: etag("abc"), if_unmodified_since: old, ..base.clone() }),
            None
        );
        assert_eq!(
            kind(&ReadConditions { if_unmodified_since: old, ..base.clone() }),
            Some(ErrorKind::PreconditionFailed)
        );
        assert_eq!(
            kind(&ReadConditions { if_none_match: etag("abc"), if_modified_since: old, ..base.clone() }),
            Some(ErrorKind::NotModified)
        );
        assert_eq!(kind(&ReadConditions { if_none_match: etag("x"), ..base.clone() }), None);
        // The date of the object itself, which has no milliseconds.
        let same = Some(WallTime(1_700_000_000_000));
        assert_eq!(
            kind(&ReadConditions { if_modified_since: same, ..base.clone() }),
            Some(ErrorKind::NotModified)
        );
        assert_eq!(kind(&ReadConditions { if_unmodified_since: same, ..base }), None);
    }

    #[test]
    fn not_modified_names_the_etag() {
        let conditions = ReadConditions { if_none_match: Some(EtagTest::Any), ..ReadConditions::default() };
        let error = conditions.check("abc", TIME).unwrap_err();
        assert!(error.headers().contains(&("etag", "\"abc\"".into())));
        assert!(error.headers().contains(&("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT".into())));
        assert_eq!(conditions.check_source("abc", TIME).unwrap_err().kind(), ErrorKind::PreconditionFailed);
    }

    #[test]
    fn writes_are_decided_against_the_current_object() {
        let absent = WriteCondition { absent: true, matches: None };
        assert!(absent.check("k", None).is_ok());
        assert_eq!(absent.check("k", Some("a")).unwrap_err().kind(), ErrorKind::PreconditionFailed);
        let matches = WriteCondition { absent: false, matches: Some(EtagTest::parse("a")) };
        assert!(matches.check("k", Some("a")).is_ok());
        assert_eq!(matches.check("k", Some("b")).unwrap_err().kind(), ErrorKind::PreconditionFailed);
        assert_eq!(matches.check("k", None).unwrap_err().kind(), ErrorKind::NoSuchKey);
    }
}
