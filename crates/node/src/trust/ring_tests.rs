//! The credential keys of a site and their file.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::{SiteId, WallTime};

use super::*;
use crate::trust::founding::Founding;

fn trust() -> (tempfile::TempDir, SiteTrust) {
    (tempfile::tempdir().unwrap(), Founding::new("north", WallTime(2000)).unwrap().first)
}

fn made(ring: &CredentialRing, at: SiteId) -> LaterKey {
    let key = SealingKey::generate().unwrap();
    let gone = [SiteId([1; 16])].into();
    let said = CredentialDocument::of(key.as_bytes(), &gone, (WallTime(5), at), None);
    LaterKey { key, said: ring.sign(said) }
}

#[test]
fn later_keys_outlive_the_process_and_open_what_they_sealed_and_nothing_else() {
    let (dir, trust) = trust();
    let ring = CredentialRing::load(dir.path(), &trust).unwrap();
    let first = ring.seal(Sealer::First, "key AKIA1", b"secret").unwrap();
    assert_eq!(trust.credentials.open("key AKIA1", &first).unwrap(), b"secret", "as releases before read it");
    let keys = [made(&ring, trust.statement.site), made(&ring, trust.statement.site)];
    let ids = keys.clone().map(|later| later.said.id());
    let refused = ring.seal(Sealer::Later(ids[0]), "key AKIA1", b"secret").unwrap_err();
    assert_eq!(refused.to_string(), format!("the credential key {} is not here", ids[0]));
    ring.add([keys[0].clone()]).unwrap();
    ring.add([keys[1].clone(), keys[0].clone()]).unwrap();
    let again = CredentialRing::load(dir.path(), &trust).unwrap();
    assert_eq!((again.said(), ids.map(|id| again.has(id))), (ring.said(), [true, true]));
    for id in ids {
        let sealed = ring.seal(Sealer::Later(id), "key AKIA1", b"secret").unwrap();
        assert_eq!(again.open("key AKIA1", &sealed).unwrap(), b"secret");
        assert_eq!(again.open("key AKIA2", &sealed), Err(NotOpened));
        assert_eq!(trust.credentials.open("key AKIA1", &sealed), Err(NotOpened));
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(again.open("key AKIA1", &bad), Err(NotOpened), "{at}");
            assert_eq!(again.open("key AKIA1", &sealed[..at]), Err(NotOpened), "{at}");
        }
    }
    assert_eq!(again.open("key AKIA1", &first).unwrap(), b"secret");
    assert!(!format!("{again:?}").contains(&format!("{:?}", keys[0].key.as_bytes())));
}

/// What a hostile member makes, or many of them, leaves room for what this site needs.
#[test]
fn keys_of_others_are_bounded_and_own_ones_find_room() {
    let (dir, trust) = trust();
    let ring = CredentialRing::load(dir.path(), &trust).unwrap();
    let one = made(&ring, SiteId([9; 16]));
    let many = |at: u8, count: u64| {
        let kept_from = (100..196).map(|n| SiteId([n; 16])).collect();
        let one = LaterKey { said: CredentialDocument { kept_from, ..one.said.clone() }, ..one.clone() };
        (0..count).map(move |made| LaterKey {
            said: CredentialDocument { at: SiteId([at; 16]), made: WallTime(made), ..one.said.clone() },
            ..one.clone()
        })
    };
    ring.add(many(1, 300)).unwrap();
    assert_eq!(ring.said().len(), OF_ONE);
    ring.add((2..9).flat_map(|at| many(at, 300))).unwrap();
    assert_eq!(ring.said().len(), MOST - OF_ONE);
    let own = made(&ring, trust.statement.site);
    let id = own.said.id();
    ring.add([own]).unwrap();
    assert!(ring.has(id));
    let bytes = files::read_secret(&dir.path().join(FILE)).unwrap().len();
    assert!(bytes < MOST * 4096, "as much as can be read again: {bytes}");
}

/// Fixture of version 1: what lies in the file must be read for ever.
#[test]
fn later_key_v1_fixture() {
    let (key, gone) = (SealingKey::from_bytes([2; 32]), [SiteId([1; 16])].into());
    let said = CredentialDocument::of(key.as_bytes(), &gone, (WallTime(300), SiteId([9; 16])), None);
    let later = LaterKey { key, said: CredentialDocument { signature: vec![7].into(), ..said } };
    let hex = skerry_base::hex::text(&codec::encode(&later));
    let expected = concat!(
        "010202020202020202020202020202020202020202020202020202020202020202be845f319931f9cd5cf6c56e38da82acbda12242666",
        "8b7faa805464196f572000101010101010101010101010101010101dc45aa811e98fd5ecb9bae601435230bac0209090909090909090909",
        "0909090909090107"
    );
    assert_eq!(hex, expected);
    assert_eq!(codec::decode::<LaterKey>(&codec::encode(&later)).unwrap(), later);
}

#[test]
fn a_damaged_file_is_named_with_what_to_do() {
    let (dir, trust) = trust();
    let ring = CredentialRing::load(dir.path(), &trust).unwrap();
    let later = made(&ring, trust.statement.site);
    ring.add([later.clone()]).unwrap();
    let path = dir.path().join(FILE);
    let text = files::read_secret(&path).unwrap();
    let (short, other) =
        (files::pem(TAG, b"short"), LaterKey { key: SealingKey::generate().unwrap(), ..later });
    let other = files::pem(TAG, &codec::encode(&other));
    for bad in [&text[..text.len() - 7], &text.replacen("-----", "----", 1), &short, &other] {
        files::write_secret(&path, bad).unwrap();
        let refused = CredentialRing::load(dir.path(), &trust).unwrap_err().to_string();
        assert!(refused.contains(FILE) && refused.contains("move the file away"), "{refused}");
    }
}

#[test]
fn what_a_site_says_of_a_key_is_believed_from_itself_only() {
    let (dir, trust) = trust();
    let ring = CredentialRing::load(dir.path(), &trust).unwrap();
    let (said, maker) = (made(&ring, trust.statement.site).said, trust.identity.public());
    assert!(is_signed(&said, &maker));
    let another = self::trust().1.identity.public();
    assert!(!is_signed(&said, &another));
    let changed = CredentialDocument { made: WallTime(6), ..said };
    assert!(!is_signed(&changed, &maker));
}
