//! Files, environment and texts say the same; what is wrong is named.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::time::Duration;

use proptest::prelude::*;

use super::kinds::Setting;
use super::*;

fn toml(text: &str) -> Result<Config, ConfigError> {
    let config = Config::from_toml("skerry.toml", text)?;
    config.check().map(|()| config)
}

fn refused(text: &str) -> String {
    toml(text).unwrap_err().to_string()
}

fn environment(name: &str, value: &str) -> Result<Config, ConfigError> {
    Config::load(None, [(name.to_string(), value.to_string())])
}

#[test]
fn no_file_is_needed_and_the_defaults_are_sound() {
    assert_eq!(Config::load(None, []).unwrap(), Config::default());
    assert_eq!(toml("").unwrap(), Config::default());
}

#[test]
fn what_is_shown_reads_back_the_same() {
    let mut config = Config::default();
    config.s3.domains = vec!["s3.island.example".into()];
    config.storage.capacity = Size(7 << 30);
    config.limits.body_timeout = Span(Duration::from_millis(1500));
    config.log.level = "info,\"x\"=debug".into();
    for docs in [false, true] {
        assert_eq!(Config::from_toml("shown", &show(&config, docs, None)).unwrap(), config);
        assert_eq!(toml(&show(&Config::default(), docs, None)).unwrap(), Config::default());
    }
}

/// A release before refuses `auto` in these, and took any pace of the scrub.
#[test]
fn what_is_shown_and_what_releases_before_took_goes_both_ways() {
    let fields = ["memory", "dirty", "pace"];
    for docs in [false, true] {
        let shown = show(&Config::default(), docs, Some(&Fitted::here(&Config::default())));
        assert_eq!(toml(&shown).unwrap(), Config::default());
        for field in fields {
            let lines: Vec<_> = shown.lines().filter(|line| line.contains(&format!("{field} = "))).collect();
            assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("# ")), "{lines:?}");
            assert!(lines[0].contains("\"auto\" # ") && lines[0].ends_with(" here"), "{lines:?}");
        }
    }
    let said = |text: &str| toml(text).map(|config| config.scrub.pace).unwrap();
    assert_eq!(said("[scrub]\npace = \"512 KiB\""), Fit::Bytes(Size(512 << 10)));
    assert_eq!(said("[scrub]\npace = \"0 B\""), Fit::Bytes(Size(0)));
    assert_eq!(said("[scrub]\npace = \"auto\""), Fit::Auto);
    let config = toml("[storage]\ndirty = \"32 MiB\"").unwrap();
    assert!(show(&config, false, None).contains("\ndirty = \"32 MiB\"\n"));
}

#[test]
fn an_unknown_field_or_section_is_named_with_its_line() {
    let error = refused("[s3]\nlisten = \"127.0.0.1:1\"\nlisen = \"x\"\n");
    assert!(error.contains("skerry.toml") && error.contains("line 3") && error.contains("lisen"), "{error}");
    assert!(error.contains("`listen`"), "names what is known: {error}");
    let error = refused("\n[s4]\n");
    assert!(error.contains("line 2") && error.contains("s4"), "{error}");
}

#[test]
fn bad_values_are_named_with_their_line() {
    for (text, says) in [
        ("[storage]\nsync = \"yes\"", "`yes` is none of full or os"),
        ("[storage]\ncapacity = \"many\"", "`many` is not a size like `64 MiB`"),
        ("[storage]\ncapacity = true", "bytes, as `64 MiB`"),
        ("[limits]\nbody_timeout = 60", "`60` is not a span of time like `30s`"),
        ("[limits]\nconnections = -1", "-1"),
        ("[s3]\ninsecure = \"true\"", "boolean"),
        ("[bucket]\ncopies = 17", "`17` is neither `auto` nor a number from 1 to 16"),
        ("[bucket]\ncopies = \"many\"", "`many` is neither"),
        ("[storage]\nothers = \"101%\"", "`101%` is not a whole percentage"),
        ("[storage]\nothers = \"half\"", "`half` is not a size"),
    ] {
        let error = refused(text);
        assert!(error.contains(says) && error.contains("line 2"), "{text}: {error}");
    }
    assert!(refused("[s3\n").contains("line 1"));
}

#[test]
fn values_that_do_not_go_together_are_refused_by_name() {
    for (text, field) in [
        ("[s3]\nlisten = \"7600\"", "s3.listen"),
        ("[s3]\nlisten = \"::1:7600\"", "s3.listen"),
        ("[s3]\nlisten = \"0.0.0.0:7600\"", "s3.listen"),
        ("[admin]\nlisten = \"10.0.0.1:7601\"", "admin.listen"),
        ("[peer]\nlisten = \"127.0.0.1:7600\"", "peer.listen"),
        ("[peer]\ncongestion = \"bbr; reboot\"", "peer.congestion"),
        ("[peer]\ncongestion = \"a-name-of-sixteen\"", "peer.congestion"),
        ("[peer]\nadvertise = [\"host\"]", "peer.advertise"),
        ("[peer]\nadvertise = [\"host:0\"]", "peer.advertise"),
        ("[s3]\ndomains = [\"a..b\"]", "s3.domains"),
        ("[tls]\ncertificate = \"a.pem\"", "tls.key"),
        ("[tls]\nkey = \"a.pem\"", "tls.certificate"),
        ("[storage]\njournal_segment = \"1 kB\"", "storage.journal_segment"),
        ("[storage]\ncapacity = \"100 MiB\"", "storage.capacity: 100 MiB is too little, at least 256 MiB"),
        ("[admin]\nlisten = \"127.0.0.1:7600\"", "admin.listen: is the same as s3.listen"),
        ("[storage]\npace = \"1 kB\"", "storage.pace"),
        ("[storage]\ncapacity = \"1 GB\"\nothers = \"2 GB\"", "storage.others"),
        ("[limits]\nconnections = 0", "limits.connections"),
        ("[limits]\nbody_timeout = \"1ms\"", "limits.body_timeout"),
        ("[log]\nlevel = \"loud\"", "log.level"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(field), "{text}: {error}");
    }
}

#[test]
fn off_loopback_needs_tls_or_a_word() {
    for good in [
        "[s3]\nlisten = \"0.0.0.0:7600\"\ninsecure = true",
        "[s3]\nlisten = \"[::]:7600\"\n[tls]\ncertificate = \"c\"\nkey = \"k\"",
        "[s3]\nlisten = \"[::1]:7600\"",
        "[s3]\nlisten = \"localhost:7600\"",
    ] {
        toml(good).unwrap();
    }
}

#[test]
fn the_environment_wins_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skerry.toml");
    std::fs::write(&path, "[s3]\nregion = \"here\"\nlisten = \"127.0.0.1:1000\"\n").unwrap();
    let variables = [
        ("SKERRY_S3_REGION", "there"),
        ("SKERRY_PEER_ADVERTISE", "a.example:1, [::1]:2"),
        ("SKERRY_STORAGE_CACHE", "1.5 GiB"),
        ("SKERRY_LIMITS_BODY_TIMEOUT", "2m"),
        ("SKERRY_ACCESS_KEY", "not ours"),
        ("SKERRY_CONFIG", "not ours"),
        ("PATH", "/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let config = Config::load(Some(&path), variables).unwrap();
    assert_eq!((config.s3.region.as_str(), config.s3.listen.as_str()), ("there", "127.0.0.1:1000"));
    assert_eq!(config.peer.advertise, ["a.example:1", "[::1]:2"]);
    assert_eq!(config.storage.cache, Cap::Bytes(Size(3 << 29)));
    assert_eq!(config.limits.body_timeout, Span(Duration::from_secs(120)));
}

#[test]
fn a_wrong_variable_is_named() {
    let error = environment("SKERRY_S3_LISEN", "x").unwrap_err().to_string();
    assert!(error.contains("SKERRY_S3_LISEN") && error.contains("`lisen`"), "{error}");
    let error = environment("SKERRY_S3_INSECURE", "maybe").unwrap_err().to_string();
    assert!(error.contains("SKERRY_S3_INSECURE") && error.contains("`maybe`"), "{error}");
    let error = environment("SKERRY_S3_LISTEN", "nowhere").unwrap_err().to_string();
    assert!(error.starts_with("environment variable SKERRY_S3_LISTEN: s3.listen: "), "{error}");
}

#[test]
fn a_value_that_fits_its_form_only_is_named_with_its_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skerry.toml");
    for (text, line) in [
        ("[site]\n# how many nodes\nseats = 9\n", 3),
        ("site.seats = 9\n", 1),
        ("[s3]\nregion = \"a\"\n\n[ site ]\nseats=9\n", 5),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Config::load(Some(&path), []).unwrap_err().to_string();
        assert_eq!(error, format!("{}, line {line}: site.seats: 9 is not from 1 to 4", path.display()));
    }
    std::fs::write(&path, "[s3]\nlisten = \"0.0.0.0:7700\"\ninsecure = true\n").unwrap();
    let error = Config::load(Some(&path), []).unwrap_err().to_string();
    assert!(error.contains("peer.listen") && !error.contains("line"), "a default is on no line: {error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Some(Path::new("/nonexistent/skerry.toml")), []).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/skerry.toml"), "{error}");
}

#[test]
fn every_field_can_be_set_by_its_variable() {
    let defaults = Config::default();
    for field in Config::FIELDS {
        let shown = defaults.toml(field.section, field.name);
        assert!(!shown.is_empty() && !field.doc.trim().is_empty(), "{field:?}");
        let text = shown.trim_matches(['"', '[', ']']);
        let mut config = defaults.clone();
        config.set(field.section, field.name, text).unwrap();
        assert_eq!(config, defaults, "{field:?}");
    }
}

#[test]
fn sizes_and_spans_are_human() {
    for (text, bytes) in [("64 MiB", 64 << 20), ("64mib", 64 << 20), ("1.5 kB", 1500), ("7", 7), ("0", 0)] {
        assert_eq!(Size::parse(text).unwrap(), Size(bytes), "{text}");
    }
    for text in ["", "MiB", "1..2 MiB", "1. MiB", "-1", "5 parsecs", "99999999999 TiB", "1e3"] {
        Size::parse(text).unwrap_err();
    }
    for (text, millis) in [("30s", 30_000), ("24h", 86_400_000), ("1.5m", 90_000), ("250 ms", 250)] {
        assert_eq!(Span::parse(text).unwrap(), Span(Duration::from_millis(millis)), "{text}");
    }
    Span::parse("30").unwrap_err();
    assert_eq!(
        (Size(64 << 20).to_string(), Span(Duration::from_secs(90)).to_string()),
        ("64 MiB".into(), "90s".into())
    );
}

proptest! {
    #[test]
    fn sizes_and_spans_read_back(bytes: u64, millis in 0..u64::MAX / 86_400_000) {
        prop_assert_eq!(Size::parse(&Size(bytes).to_string()).unwrap(), Size(bytes));
        let span = Span(Duration::from_millis(millis));
        prop_assert_eq!(Span::parse(&span.to_string()).unwrap(), span);
    }

    #[test]
    fn no_text_breaks_the_readers(text in "\\PC*") {
        let _ = (Size::parse(&text), Span::parse(&text), Config::from_toml("x", &text));
    }
}

#[test]
fn the_rules_name_the_ports_that_are_open() {
    let mut config = Config::default();
    let text = ports(&config);
    assert!(text.contains("dport 7700") && !text.contains("dport 7600"), "{text}");
    config.s3.listen = "0.0.0.0:443".into();
    config.admin.listen = "[::]:9000".into();
    let text = ports(&config);
    assert!(text.contains("dport 443") && text.contains("dport 9000"), "{text}");
}

/// `SKERRY_BLESS=1 cargo test -p skerry-node reference` writes the page anew.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("SKERRY_BLESS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), reference());
}

#[test]
fn caps_are_sizes_parts_of_the_disk_or_left_to_the_node() {
    for (text, cap, bytes) in [
        ("auto", Cap::Auto, 25 << 20),
        ("0%", Cap::Percent(0), 0),
        ("100 %", Cap::Percent(100), 100 << 20),
        ("3 GiB", Cap::Bytes(Size(3 << 30)), 3 << 30),
        ("0", Cap::Bytes(Size(0)), 0),
    ] {
        assert_eq!(Cap::parse(text).unwrap(), cap, "{text}");
        assert_eq!(cap.of(100 << 20, 25), bytes, "{text}");
        assert_eq!(Cap::parse(&cap.toml().replace('"', "")).unwrap(), cap);
    }
    for text in ["101%", "-1%", "1.5%", "%", "much", "5 pints"] {
        let error = Cap::parse(text).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
}
