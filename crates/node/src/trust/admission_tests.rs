//! The chain holds, and breaks at every link that is tampered with.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn admin(root: &Identity) -> AdminKey {
    let identity = Identity::generate().unwrap();
    let certificate = AdminCertificate::issue(root, identity.public(), "admin-1");
    AdminKey { identity, certificate }
}

fn statement(root: &Identity) -> SiteStatement {
    SiteStatement {
        federation: federation_id(&root.public()),
        site: SiteId([7; 16]),
        name: "north".into(),
        node: Identity::generate().unwrap().public(),
        admitted: WallTime(1),
    }
}

#[test]
fn a_whole_chain_is_believed() {
    let root = Identity::generate().unwrap();
    let said = statement(&root);
    let bytes = admin(&root).admit(&said).encode();
    assert_eq!(verify_site_document(&root.public(), &bytes).unwrap(), said);
}

#[test]
fn every_flipped_bit_is_refused() {
    let root = Identity::generate().unwrap();
    let bytes = admin(&root).admit(&statement(&root)).encode();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(verify_site_document(&root.public(), &bad).is_err(), "byte {at}");
    }
}

#[test]
fn a_foreign_root_or_federation_and_a_self_made_admin_are_refused() {
    let (root, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let signed = admin(&root).admit(&statement(&root));
    assert_eq!(signed.verify(&other.public()), Err(Untrusted::Admin));
    assert_eq!(admin(&root).admit(&statement(&other)).verify(&root.public()), Err(Untrusted::Federation));
    // Certified by itself instead of by the root.
    assert_eq!(admin(&other).admit(&statement(&root)).verify(&root.public()), Err(Untrusted::Admin));
    // A true certificate over a statement that its key did not sign.
    let mut forged = signed.clone();
    forged.statement = codec::encode(&statement(&root));
    assert_eq!(forged.verify(&root.public()), Err(Untrusted::Site));
}

#[test]
fn a_signature_for_one_purpose_is_none_for_another() {
    let key = Identity::generate().unwrap();
    let signature = key.sign("a", b"text");
    assert!(key.public().verifies("a", b"text", &signature.0));
    assert!(!key.public().verifies("b", b"text", &signature.0));
    assert!(!key.public().verifies("a", b"texT", &signature.0));
}
