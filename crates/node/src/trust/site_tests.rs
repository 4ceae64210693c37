//! A site comes back from its files, and files that do not fit together are refused.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;

use skerry_base::WallTime;

use super::*;
use crate::trust::founding::{Founding, ROOT_KEY, SPARE_ADMIN_KEY};

#[test]
fn a_founded_site_comes_back_and_its_root_lies_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (site, federation) = (dir.path().join("site"), dir.path().join("federation"));
    let founding = Founding::new("north", WallTime(5)).unwrap();
    founding.store_root(&federation).unwrap();
    founding.first.store(&site).unwrap();
    let loaded = SiteTrust::load(&site).unwrap();
    assert_eq!(loaded.statement, founding.first.statement);
    assert_eq!(loaded.credentials, founding.first.credentials);
    assert!(loaded.admin.is_some());
    let root = fs::read_to_string(federation.join(ROOT_KEY)).unwrap();
    for file in fs::read_dir(&site).unwrap() {
        assert_ne!(fs::read_to_string(file.unwrap().path()).unwrap(), root);
    }
    let error = Founding::new("north", WallTime(5)).unwrap().store_root(&federation).unwrap_err();
    assert!(error.to_string().contains("never overwritten"), "{error}");
}

/// The root key was carried away, as one is told to: the spare may be all that is left when the first box burns.
#[test]
fn the_spare_key_of_another_federation_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (site, federation) = (dir.path().join("site"), dir.path().join("federation"));
    Founding::new("north", WallTime(5)).unwrap().store(&site, &federation).unwrap();
    fs::remove_file(federation.join(ROOT_KEY)).unwrap();
    let spare = fs::read(federation.join(SPARE_ADMIN_KEY)).unwrap();
    let other = dir.path().join("other");
    let founding = Founding::begin("south", WallTime(5), &other, &federation).unwrap();
    for refused in [founding.store(&other, &federation), founding.store_root(&federation)] {
        assert!(matches!(refused, Err(TrustError::Taken(_))), "{refused:?}");
    }
    assert!(!other.exists(), "what is refused leaves nothing behind");
    assert_eq!(fs::read(federation.join(SPARE_ADMIN_KEY)).unwrap(), spare);
}

/// Wherever a founding is interrupted, the same again makes a site; another site's root is no such try.
#[test]
fn a_founding_that_was_interrupted_is_taken_up() {
    let dir = tempfile::tempdir().unwrap();
    let (site, federation) = (dir.path().join("site"), dir.path().join("federation"));
    let first = Founding::new("north", WallTime(5)).unwrap();
    first.first.store_keys(&site).unwrap();
    let (root, spare) = (federation.join(ROOT_KEY), federation.join(SPARE_ADMIN_KEY));
    // The keys of the site were there, then the root key, then the spare.
    for left in 0..3 {
        let again = Founding::begin("north", WallTime(6), &site, &federation).unwrap();
        if left == 0 {
            again.store(&site, &federation).unwrap();
        } else {
            let key = fs::read(&root).unwrap();
            if left == 1 {
                fs::remove_file(&spare).unwrap();
            }
            again.store(&site, &federation).unwrap();
            assert_eq!(fs::read(&root).unwrap(), key, "it is the same federation");
        }
        let loaded = SiteTrust::load(&site).unwrap();
        assert!(AdminKey::load(&spare, &loaded.root).is_ok());
        let elsewhere = Founding::begin("x", WallTime(6), &dir.path().join("elsewhere"), &federation);
        assert!(matches!(elsewhere, Err(TrustError::Taken(_))));
        assert!(matches!(Founding::begin("x", WallTime(6), &site, &federation), Err(TrustError::Taken(_))));
        fs::remove_file(site.join(TRUST)).unwrap();
    }
    SiteTrust::started(&site).unwrap();
    let started = Founding::begin("x", WallTime(6), &site, &federation);
    assert!(matches!(started, Err(TrustError::Taken(_))), "a site that lost its trust.json is no try");
}

#[test]
fn files_of_two_sites_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let sites = ["a", "b"].map(|name| dir.path().join(name));
    for site in &sites {
        Founding::new("x", WallTime(0)).unwrap().first.store(site).unwrap();
    }
    let [a, b] = &sites;
    fs::copy(b.join(NODE_KEY), a.join(NODE_KEY)).unwrap();
    assert!(SiteTrust::load(a).unwrap_err().to_string().contains("another node key"));
    fs::copy(a.join(ADMIN_KEY), b.join(ADMIN_KEY)).unwrap();
    let restored = Founding::new("x", WallTime(0)).unwrap();
    restored.first.store(a).unwrap();
    fs::copy(a.join(NODE_KEY), b.join("ignored")).unwrap();
    assert!(matches!(SiteTrust::load(b), Err(TrustError::Untrusted(Untrusted::Admin))));
}

#[test]
fn an_unknown_field_or_version_of_the_trust_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Founding::new("x", WallTime(0)).unwrap().first.store(dir.path()).unwrap();
    let path = dir.path().join(TRUST);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    assert!(SiteTrust::load(dir.path()).unwrap_err().to_string().contains("version 2"));
    fs::write(&path, text.replace("\"root\"", "\"extra\": 1, \"root\"")).unwrap();
    assert!(SiteTrust::load(dir.path()).unwrap_err().to_string().contains("extra"));
}
