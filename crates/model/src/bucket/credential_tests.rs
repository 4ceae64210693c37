//! Credential keys: whom they are kept from, and which one seals.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::super::tests::{Site, exchange, system};
use super::*;
use crate::write::Ask;

fn sites_of(these: &[u8]) -> BTreeSet<SiteId> {
    these.iter().map(|n| SiteId([*n; 16])).collect()
}

/// Of key `n`, made at site 9.
fn said(n: u8, gone: &[u8], made: u64) -> CredentialDocument {
    CredentialDocument::of(&[n; 32], &sites_of(gone), (WallTime(made), SiteId([9; 16])), None)
}

fn known(documents: &[&CredentialDocument]) -> CredentialKeys {
    let mut keys = CredentialKeys::default();
    documents.iter().for_each(|said| keys.hear((*said).clone()));
    keys
}

impl Site {
    fn announce(&mut self, at: CredentialKeyId, said: &CredentialDocument) {
        let (_, object) = said.stored();
        self.write(system(), &SystemKey::Credential(at).to_string(), Ask::Put(Box::new(object)));
    }

    fn credential_keys(&self) -> CredentialKeys {
        CredentialKeys::load(&self.tables, system(), &mut |said| said.signature.is_empty()).unwrap()
    }
}

#[test]
fn what_is_sealed_after_somebody_went_does_not_open_with_what_he_has() {
    let mut keys = CredentialKeys::default();
    assert_eq!(keys.sealer(|_| true, &sites_of(&[])), Some(Sealer::First));
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1])), None, "who is gone has the first");
    let first = said(1, &[1], 5);
    keys.hear(first.clone());
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1])), Some(Sealer::Later(first.id())));
    assert_eq!(keys.sealer(|_| false, &sites_of(&[1])), None, "its bytes are not here");
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1, 2])), None);
    // The clock that makes the next one is behind.
    let at = (WallTime(1), SiteId([9; 16]));
    let next = CredentialDocument::of(&[2; 32], &sites_of(&[1, 2]), at, Some(first.made));
    assert_eq!(next, said(2, &[1, 2], 6));
    keys.hear(next.clone());
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1, 2])), Some(Sealer::Later(next.id())));
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1])), Some(Sealer::Later(first.id())), "2 is not gone here");
    assert_eq!(keys.sealer(|_| true, &sites_of(&[])), Some(Sealer::First));
    assert_eq!(keys.known_to(Sealer::First, &sites_of(&[1, 2])), sites_of(&[1, 2]));
    assert_eq!(keys.known_to(Sealer::Later(first.id()), &sites_of(&[1, 2])), sites_of(&[2]));
    assert_eq!(
        keys.known_to(Sealer::Later(said(3, &[1], 5).id()), &sites_of(&[1])),
        sites_of(&[1]),
        "unheard of"
    );
}

/// Two islands expelled one each, not knowing of each other.
#[test]
fn of_two_keys_that_are_kept_from_one_each_neither_seals() {
    let (one, two, both) = (said(1, &[1], 5), said(2, &[2], 5), said(3, &[1, 2], 7));
    assert_eq!(known(&[&one, &two]).sealer(|_| true, &sites_of(&[1, 2])), None);
    let keys = known(&[&one, &two, &both]);
    assert_eq!(keys.sealer(|_| true, &sites_of(&[1, 2])), Some(Sealer::Later(both.id())));
}

/// Who was expelled has what it made itself, whatever it says of that.
#[test]
fn a_key_is_never_kept_from_its_maker() {
    let honest = said(1, &[1, 9], 5);
    assert_eq!(honest.kept_from, sites_of(&[1]));
    let hostile = CredentialDocument { kept_from: sites_of(&[1, 9]), ..said(1, &[1, 9], 5) };
    for own in [honest, hostile] {
        let keys = known(&[&own]);
        assert_eq!(keys.sealer(|_| true, &sites_of(&[1, 9])), None);
        assert_eq!(keys.known_to(Sealer::Later(own.id()), &sites_of(&[1, 9])), sites_of(&[9]));
    }
}

#[test]
fn more_sites_than_a_document_names_are_known_by_their_hash() {
    let many: Vec<u8> = (10..=255).collect();
    let document = CredentialDocument { signature: vec![0; 64].into(), ..said(1, &many, 5) };
    assert_eq!(document.kept_from.len(), NAMED);
    assert_eq!(document.stored().1.check(), Ok(()));
    let keys = known(&[&document]);
    let sealer = Sealer::Later(document.id());
    assert_eq!(keys.sealer(|_| true, &sites_of(&many)), Some(sealer));
    assert_eq!(keys.sealer(|_| true, &sites_of(&many[..NAMED])), Some(sealer), "those that it names");
    assert_eq!(keys.sealer(|_| true, &sites_of(&many[1..NAMED])), None);
    let others = [&many[..], &[1]].concat();
    assert_eq!(keys.sealer(|_| true, &sites_of(&others)), None);
    assert_eq!(keys.known_to(sealer, &sites_of(&others)).len(), others.len() - NAMED);
}

#[test]
fn a_key_is_told_to_nobody_from_whom_it_is_kept() {
    let (one, two) = (said(1, &[1], 5), said(2, &[1, 2], 6));
    let keys = known(&[&one, &two]);
    let asked = |of: &CredentialDocument, asker: u8| keys.may_tell(of.id(), SiteId([asker; 16]));
    assert_eq!((asked(&one, 1), asked(&one, 2)), (false, true));
    assert_eq!((asked(&two, 1), asked(&two, 2), asked(&two, 3)), (false, false, true));
    assert!(!asked(&said(3, &[], 5), 3), "nothing was heard of it");
    assert!(one.is_of(&[1; 32]) && !one.is_of(&[2; 32]));
    let copied = CredentialDocument { kept_from: sites_of(&[]), ..one };
    assert!(!copied.is_of(&[1; 32]), "by one that has not the bytes");
}

#[test]
fn nobody_says_something_else_of_a_key_than_its_maker_did() {
    let (mut one, mut two) = (Site::new(1, "one"), Site::new(2, "two"));
    let honest = said(1, &[1], 5);
    one.announce(honest.id(), &honest);
    exchange(&mut one, &mut two, &[]);
    assert_eq!(two.credential_keys(), known(&[&honest]));
    let forged = CredentialDocument { signature: Bytes::from_static(b"forged"), ..said(2, &[], 9) };
    two.announce(forged.id(), &forged);
    // The same bytes, kept from nobody: under the name of the other, it is nothing, and by itself another key.
    let other = said(1, &[], 9);
    two.announce(honest.id(), &other);
    exchange(&mut one, &mut two, &[]);
    assert_eq!(one.credential_keys(), known(&[]), "who has the key says it again");
    assert_ne!(honest.id(), other.id());
    one.announce(honest.id(), &honest);
    let object = Object { document: Some(Bytes::from_static(b"?")), ..honest.stored().1 };
    let damaged = SystemKey::Credential(forged.id()).to_string();
    two.write(system(), &damaged, Ask::Put(Box::new(object)));
    exchange(&mut one, &mut two, &[]);
    assert_eq!(two.credential_keys(), known(&[&honest]), "what does not read is passed over");
}

#[test]
fn a_sealed_secret_begins_with_the_name_of_its_key() {
    let one = said(1, &[1], 5);
    let keys = known(&[&one]);
    assert_eq!(keys.of(&[&one.id().0[..], &[0; 8]].concat()), Sealer::Later(one.id()));
    assert_eq!(keys.of(&[2; 40]), Sealer::First, "of a nonce");
    assert_eq!(keys.of(&one.id().0[..15]), Sealer::First);
    let key = SystemKey::Credential(one.id());
    assert_eq!(SystemKey::parse(&key.to_string()), Some(key));
    let upper = format!("credential/{}", "A".repeat(32));
    for wrong in ["credential/", "credential/1", &upper] {
        assert_eq!(SystemKey::parse(wrong), None, "{wrong}");
    }
}

/// Fixture of version 1: must decode, and be called so, for ever.
#[test]
fn v1_fixture() {
    let document = CredentialDocument { signature: Bytes::from_static(&[7]), ..said(1, &[1], 300) };
    let hex = skerry_base::hex::text(&codec::encode(&document));
    assert_eq!(
        hex,
        "01f16a0b5357eb77b48115e0cb3a084f473aaad8d783d87cd69e51e12d03dce3900101010101010101010101010101010101dc45aa811e98fd5ecb9bae601435230bac02090909090909090909090909090909090107"
    );
    assert_eq!(codec::decode::<CredentialDocument>(&codec::encode(&document)).unwrap(), document);
    assert_eq!(document.id().to_string(), "a67cddf35ea77694893231a82cfcf6ff");
    assert_ne!(document.id(), said(1, &[1], 300).id(), "another signature is another key");
}
