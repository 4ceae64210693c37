//! Who asks, and what a write answers beyond S3.

/// Who signed the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// The access key id.
    pub access_key: String,
    /// Whom the key belongs to: the owner of the buckets it creates.
    pub owner: String,
}

/// How far a read may lag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// What this site has is good enough (the default).
    #[default]
    Local,
    /// `x-skerry-read: latest`: ask on, and say so if nobody answers.
    Latest,
    /// `x-skerry-token: …`: at least as new as the write that answered this token.
    After(String),
}

/// What is known of a request beside its own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestContext {
    /// Who asks.
    pub principal: Principal,
    /// How far a read may lag.
    pub read: ReadMode,
    /// `x-skerry-scope` of the request: the acknowledgement scope asked for, unparsed.
    pub scope: Option<String>,
}

/// What every answer may carry beyond S3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// `x-skerry-scope`: the acknowledgement scope reached.
    pub scope: Option<String>,
    /// `x-skerry-token`: a later read that carries it sees this write.
    pub token: Option<String>,
    /// `x-skerry-lost`: what is shown stands in place of a version whose body was lost with a site: which, where, when.
    pub lost: Option<String>,
}
