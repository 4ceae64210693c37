//! What an access key may do.
//!
//! Why here: every site must decide alike, alone. Small on purpose: owner, admin, a list of buckets, two flags.
//! The policy language comes later; until then a key with policy text may do nothing, because a policy that is
//! not understood must not be taken for leave.

use skerry_base::{SiteId, WallTime};

use crate::bucket::{KeyDocument, KeyStatus};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read objects, list keys, versions, uploads; read settings of a bucket.
    Read,
    /// Write and delete objects.
    Write,
    /// List the own buckets.
    ListBuckets,
    /// Make a bucket.
    CreateBucket,
    /// Delete a bucket, change its settings.
    ManageBucket,
    /// Keys, sites, other owners' affairs.
    Administer,
}

/// The bucket it is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The name that found it, or that shall be made.
    pub name: &'a str,
    /// Its owner; the asker's own for one that shall be made.
    pub owner: &'a str,
}

/// Why it is refused: all are 403 `AccessDenied` or, for the key itself, `InvalidAccessKeyId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The key was disabled.
    #[error("the access key is disabled")]
    Disabled,
    /// The key has ended.
    #[error("the access key has expired")]
    Expired,
    /// Not in scope here.
    #[error("the access key does not work at this site")]
    Site,
    /// This release does not understand the key's policy.
    #[error("the access key carries a policy that this release does not understand")]
    Policy,
    /// Another owner's bucket, or not on the key's list.
    #[error("the access key does not open this bucket")]
    Bucket,
    /// Lacks the flag.
    #[error("the access key does not allow this")]
    Action,
}

/// Whether the key works here and now, whatever for.
pub fn authenticates(key: &KeyDocument, site: SiteId, now: WallTime) -> Result<(), Denied> {
    if key.status != KeyStatus::Active {
        return Err(Denied::Disabled);
    }
    if key.expires.is_some_and(|end| now >= end) {
        return Err(Denied::Expired);
    }
    if !key.sites.is_empty() && !key.sites.contains(&site) {
        return Err(Denied::Site);
    }
    Ok(())
}

/// Whether a key that authenticates may do this.
pub fn allows(key: &KeyDocument, action: Action, target: Option<Target<'_>>) -> Result<(), Denied> {
    if !key.policy.trim().is_empty() {
        return Err(Denied::Policy);
    }
    if key.admin {
        return Ok(());
    }
    if let Some(target) = target
        && !opens(key, target)
    {
        return Err(Denied::Bucket);
    }
    let limited = key.buckets.is_some();
    let allowed = match action {
        Action::Read | Action::ListBuckets => key.read,
        Action::Write => key.write,
        Action::CreateBucket | Action::ManageBucket => key.write && !limited,
        Action::Administer => false,
    };
    if allowed { Ok(()) } else { Err(Denied::Action) }
}

/// Whether a bucket is among those that the key lists: its owner's own, or, where it is limited to some, those of them that there are.
/// What it opens without listing, as an administrator's key does of others' buckets, would drown what is its own.
pub fn lists(key: &KeyDocument, target: Target<'_>) -> bool {
    if key.admin { key.owner == target.owner } else { opens(key, target) }
}

fn opens(key: &KeyDocument, target: Target<'_>) -> bool {
    match &key.buckets {
        Some(names) => names.iter().any(|name| name == target.name),
        None => key.owner == target.owner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> KeyDocument {
        KeyDocument {
            secret: bytes::Bytes::new(),
            owner: "ann".into(),
            status: KeyStatus::Active,
            created: WallTime(0),
            expires: None,
            sites: Vec::new(),
            admin: false,
            buckets: None,
            read: true,
            write: true,
            policy: String::new(),
            description: String::new(),
        }
    }

    const OWN: Option<Target<'static>> = Some(Target { name: "own", owner: "ann" });
    const OTHER: Option<Target<'static>> = Some(Target { name: "other", owner: "bob" });

    #[test]
    fn a_key_works_while_active_in_time_and_in_place() {
        let at = |key: &KeyDocument| authenticates(key, SiteId([1; 16]), WallTime(100));
        assert_eq!(at(&key()), Ok(()));
        assert_eq!(at(&KeyDocument { status: KeyStatus::Disabled, ..key() }), Err(Denied::Disabled));
        assert_eq!(at(&KeyDocument { expires: Some(WallTime(100)), ..key() }), Err(Denied::Expired));
        assert_eq!(at(&KeyDocument { expires: Some(WallTime(101)), ..key() }), Ok(()));
        assert_eq!(at(&KeyDocument { sites: vec![SiteId([2; 16])], ..key() }), Err(Denied::Site));
        assert_eq!(at(&KeyDocument { sites: vec![SiteId([1; 16])], ..key() }), Ok(()));
    }

    #[test]
    fn owners_open_their_buckets_and_admins_all() {
        for action in [Action::Read, Action::Write, Action::CreateBucket, Action::ManageBucket] {
            assert_eq!(allows(&key(), action, OWN), Ok(()));
            assert_eq!(allows(&key(), action, OTHER), Err(Denied::Bucket));
            assert_eq!(allows(&KeyDocument { admin: true, ..key() }, action, OTHER), Ok(()));
        }
        assert_eq!(allows(&key(), Action::Administer, None), Err(Denied::Action));
        assert_eq!(allows(&key(), Action::ListBuckets, None), Ok(()));
    }

    #[test]
    fn lists_and_flags_limit() {
        let listed = KeyDocument { buckets: Some(vec!["other".into()]), write: false, ..key() };
        assert_eq!(allows(&listed, Action::Read, OTHER), Ok(()));
        assert_eq!(allows(&listed, Action::Write, OTHER), Err(Denied::Action));
        assert_eq!(allows(&listed, Action::Read, OWN), Err(Denied::Bucket));
        let write = KeyDocument { write: true, ..listed };
        assert_eq!(allows(&write, Action::Write, OTHER), Ok(()));
        assert_eq!(allows(&write, Action::ManageBucket, OTHER), Err(Denied::Action));
        assert_eq!(allows(&KeyDocument { read: false, ..key() }, Action::Read, OWN), Err(Denied::Action));
    }

    #[test]
    fn a_limited_key_lists_what_it_opens_and_nothing_else() {
        let shown =
            |key: &KeyDocument| [OWN, OTHER].map(|target| target.is_some_and(|target| lists(key, target)));
        assert_eq!(shown(&key()), [true, false]);
        assert_eq!(shown(&KeyDocument { buckets: Some(vec!["other".into()]), ..key() }), [false, true]);
        assert_eq!(shown(&KeyDocument { buckets: Some(Vec::new()), ..key() }), [false, false]);
        let admin = KeyDocument { admin: true, ..key() };
        assert_eq!(shown(&admin), [true, false]);
        assert_eq!(shown(&KeyDocument { buckets: Some(vec!["other".into()]), ..admin }), [true, false]);
    }

    #[test]
    fn a_policy_not_understood_refuses_everybody() {
        let policy = KeyDocument { policy: "{}".into(), admin: true, ..key() };
        assert_eq!(allows(&policy, Action::Read, OWN), Err(Denied::Policy));
    }
}
