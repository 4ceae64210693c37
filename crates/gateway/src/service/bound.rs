//! Bounds by name, as metrics and refusals tell of them: how much there is, how much is taken, and which one it was that had no more.
//!
//! Invariant: a bound and the refusals for it have one name, so that who sees 503 finds what to raise.

/// One of the bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Of what.
    pub of: &'static str,
    /// All there is.
    pub most: u64,
    /// Of that taken now.
    pub taken: u64,
    /// Whether it counts bytes, else places.
    pub is_bytes: bool,
}

impl Bound {
    /// Of bytes.
    pub const fn bytes(of: &'static str, most: u64, taken: u64) -> Self {
        Self { of, most, taken, is_bytes: true }
    }

    /// Of places.
    pub const fn places(of: &'static str, most: usize, taken: usize) -> Self {
        Self { of, most: most as u64, taken: taken as u64, is_bytes: false }
    }

    /// The same under another name.
    #[must_use]
    pub const fn called(self, of: &'static str) -> Self {
        Self { of, ..self }
    }
}

/// Declares the reasons with their names.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal;)*) => {
        /// Why a request is told to come back later.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[$doc])* $reason,)* }

        impl Reason {
            /// As metrics have it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$reason,)*];
        }
    };
}

reasons! {
    /// Memory for chunks of uploads.
    Incoming = "incoming";
    /// Memory for payload of another use.
    Payload = "payload";
    /// Memory for the documents of requests.
    Documents = "documents";
    /// Requests of HTTP/2 beside the first of their connections.
    Requests = "http2_requests";
    /// Bodies of one HTTP/2 connection that stand unread.
    Bodies = "http2_bodies";
    /// Copies, completions and the like that are under way.
    Long = "long_requests";
    /// Requests that go on though their clients have left.
    Abandoned = "abandoned";
    /// Proposals that wait for the commit thread.
    Commits = "commits";
    /// Changes that the index could not flush.
    Memtables = "memtables";
    /// Bodies that other sites hand over to be written here.
    Forwards = "forwards";
    /// The system had no more files or memory for this process.
    System = "system";
    /// Another site refused it; its metrics say why.
    AnotherSite = "another_site";
    /// Nothing that is bounded: the site starts, stops, or hands something over.
    Unavailable = "unavailable";
    /// Anything else.
    Other = "other";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_reasons_have_one_name() {
        let mut names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
