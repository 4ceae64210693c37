//! Names of buckets that are kept for a site.
//!
//! `--` joins a name and a site: a name that begins with `<site>--` or ends with `--<site>` of a known site can be claimed
//! at that site only, so it is unique without asking anybody.

/// Between a bucket's name and a site's.
pub const SITE_SEPARATOR: &str = "--";

/// The site that alone may claim this name; none if every site may.
pub fn reserved_for(name: &str, is_site: impl Fn(&str) -> bool) -> Option<&str> {
    let before = name.split_once(SITE_SEPARATOR).map(|(site, _)| site);
    let after = name.rsplit_once(SITE_SEPARATOR).map(|(_, site)| site);
    before.filter(|site| is_site(site)).or_else(|| after.filter(|site| is_site(site)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_site_in_them_are_reserved_for_it() {
        let is_site = |name: &str| ["oslo", "site-1"].contains(&name);
        assert_eq!(reserved_for("oslo--logs", is_site), Some("oslo"));
        assert_eq!(reserved_for("logs--site-1", is_site), Some("site-1"));
        assert_eq!(reserved_for("logs--bergen", is_site), None);
        assert_eq!(reserved_for("oslo-logs", is_site), None);
    }
}
