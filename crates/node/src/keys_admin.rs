//! Access keys, as operators make, list and disable them, and as a server is started with one.
//!
//! Before: the admin face, the start of a server. After: the system bucket. Invariants: a secret is shown once, when it is made;
//! what was disabled stays so.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_gateway::service::{
    ErrorKind, KeyCreate, KeyCreated, KeyList, KeyStatus, Outcome, ServiceError, VERSION,
};
use skerry_model::bucket::{self as model, KeyDocument, SystemKey, document_object};

use crate::admin::{Admin, WRITER};
use crate::credential_keys;
use crate::paths::bucket::Declared;
use crate::paths::credentials::about;
use crate::paths::declared;
use crate::site::Site;
use crate::trust::access::{self, AccessKey};

/// The owner of what is made without saying whose.
const FIRST_OWNER: &str = "owner";

/// All that there are.
pub(crate) async fn list(admin: &Admin) -> Outcome<KeyList> {
    let keys = credential_keys::exposed(&admin.site).await?.into_iter();
    let keys = keys.map(|(id, document, known_to)| key_status(&id, &document, known_to)).collect();
    Ok(KeyList { version: VERSION, keys })
}

/// Makes one; its secret is shown this once.
pub(crate) async fn create(admin: &Admin, request: KeyCreate) -> Outcome<KeyCreated> {
    let key =
        access::generate().map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
    let owner = owner(request.owner.as_deref())?;
    let name = request.name.as_deref().unwrap_or_default();
    if name.len() > 256 || name.chars().any(char::is_control) {
        return Err(ServiceError::invalid(
            "the name of a key has at most 256 letters and no control characters",
        ));
    }
    let document = make_key(&admin.site, &key, owner, name, false).await?;
    Ok(KeyCreated { key: key_status(&key.id, &document, Vec::new()), secret: key.secret })
}

/// For ever.
pub(crate) async fn disable(admin: &Admin, id: &str) -> Outcome<KeyStatus> {
    let found = admin.site.access_key(id).await?;
    let unknown = || {
        let message = crate::paths::bucket::unknown_key().message().to_owned();
        ServiceError::new(ErrorKind::NoSuchAccessKey, message)
    };
    let mut document = found.ok_or_else(unknown)?;
    document.status = model::KeyStatus::Disabled;
    put_key(&admin.site, id, document.clone()).await?;
    // Who knew it does not matter any more.
    Ok(key_status(id, &document, Vec::new()))
}

/// Makes sure that an access key with all rights and this secret exists; one that was disabled stays so.
pub(crate) async fn ensure_key(site: &Arc<Site>, key: &AccessKey) -> Outcome<()> {
    // Also one that an older release made: what is empty keeps nobody out.
    key.check_said().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
    if let Some(known) = site.access_key(&key.id).await? {
        if known.status != model::KeyStatus::Active {
            // A site that would not start for it would take its data away with the key.
            tracing::error!(
                access_key = key.id,
                "the access key that the server was started with was disabled, which is for ever: it stays so; start the server \
                 with another one, or none"
            );
            return Ok(());
        }
        let secret = site.credentials.ring.open(&about(&key.id), &known.secret).unwrap_or_default();
        if secret == key.secret.as_bytes() {
            return Ok(());
        }
        key.check_strength().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
        tracing::warn!(
            access_key = key.id,
            "the access key gets the secret that the server was started with"
        );
    }
    key.check_strength().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
    make_key(site, key, FIRST_OWNER, "given at the start of the server", true).await.map(drop)
}

pub(crate) async fn make_key(
    site: &Arc<Site>,
    key: &AccessKey,
    owner: &str,
    description: &str,
    admin: bool,
) -> Outcome<KeyDocument> {
    let sealed = credential_keys::seal(site, &about(&key.id), key.secret.as_bytes()).await?;
    let document = KeyDocument {
        secret: sealed.into(),
        owner: owner.into(),
        status: model::KeyStatus::Active,
        created: site.clock.wall(),
        expires: None,
        sites: Vec::new(),
        admin,
        buckets: None,
        read: true,
        write: true,
        policy: String::new(),
        description: description.into(),
    };
    put_key(site, &key.id, document.clone()).await?;
    Ok(document)
}

pub(crate) async fn put_key(site: &Arc<Site>, id: &str, document: KeyDocument) -> Outcome<()> {
    let key = SystemKey::AccessKey(id.into()).to_string();
    let decide =
        move |_: &dyn View, wall| Ok(((), Some(Declared::document(key, document_object(&document, wall)))));
    let ((), reached) = declared::declare(site, WRITER, decide).await?;
    if let Err(why) = reached {
        tracing::info!(why, "the other nodes of the site hear of an access key in a moment");
    }
    Ok(())
}

fn key_status(id: &str, document: &KeyDocument, known_to: Vec<String>) -> KeyStatus {
    KeyStatus {
        version: VERSION,
        id: id.into(),
        name: document.description.clone(),
        owner: document.owner.clone(),
        created_ms: document.created.0,
        enabled: document.status == model::KeyStatus::Active,
        known_to,
    }
}

/// Whether this can own something, at whatever site.
pub fn check(asked: &str) -> Result<(), String> {
    owner(Some(asked)).map(drop).map_err(|error| error.message().to_owned())
}

/// Whose a key or a bucket is.
pub(crate) fn owner(asked: Option<&str>) -> Outcome<&str> {
    let owner = asked.unwrap_or(FIRST_OWNER);
    let sound = !owner.is_empty() && owner.len() <= 64 && !owner.chars().any(char::is_control);
    sound
        .then_some(owner)
        .ok_or_else(|| ServiceError::invalid("an owner has 1 to 64 letters and no control characters"))
}
