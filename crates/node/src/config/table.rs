//! Every field of the configuration, once: type, default, doc. All else derives from this table.

use std::time::Duration;

use serde::Deserialize;

use super::kinds::{
    BucketScope, Cap, Clock, Copies, Engine, Fit, LogFormat, Seal, Setting, Size, Span, Sync,
};

/// One field, for docs and the environment.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its section.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// What may be written.
    pub form: &'static str,
}

/// Declares the sections, and from them the structs, the defaults, the list of fields, reading and setting.
macro_rules! settings {
    ($($(#[doc = $section_doc:literal])* $section:ident: $Type:ident {
        $($(#[doc = $doc:literal])* $field:ident: $kind:ty = $default:expr,)*
    })*) => {
        $(
            $(#[doc = $section_doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
            #[serde(deny_unknown_fields, default)]
            pub struct $Type { $($(#[doc = $doc])* pub $field: $kind,)* }

            impl Default for $Type {
                fn default() -> Self {
                    Self { $($field: $default,)* }
                }
            }
        )*

        /// The configuration of a node.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Config { $($(#[doc = $section_doc])* pub $section: $Type,)* }

        impl Config {
            /// All fields in order.
            pub const FIELDS: &[Field] = &[$($(Field {
                section: stringify!($section),
                name: stringify!($field),
                doc: concat!($($doc),*),
                form: <$kind as Setting>::FORM,
            },)*)*];

            /// What each section is about, in order.
            pub const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), concat!($($section_doc),*)),)*];

            /// Sets one field from text.
            pub(super) fn set(&mut self, section: &str, field: &str, text: &str) -> Result<(), String> {
                match (section, field) {
                    $($((stringify!($section), stringify!($field)) => {
                        self.$section.$field = Setting::parse(text)?;
                    })*)*
                    _ => return Err(format!("there is no field `{field}` in section `{section}`")),
                }
                Ok(())
            }

            /// The value of one field as TOML; empty for a field that is not.
            pub fn toml(&self, section: &str, field: &str) -> String {
                match (section, field) {
                    $($((stringify!($section), stringify!($field)) => self.$section.$field.toml(),)*)*
                    _ => String::new(),
                }
            }
        }
    };
}

settings! {
    /// The node itself.
    node: Node {
        /// Directory of the site: keys, admin token and data.
        dir: String = "skerry".into(),
        /// How secrets at rest are sealed. `file`: by file permissions only, so that whoever takes the disk has the site's keys. Other seals are not built yet.
        seal: Seal = Seal::File,
    }
    /// The nodes of the site.
    site: Site {
        /// How many nodes the site has, this one included: 1 to 4, the same at each of them. With 1 a node is its site. With more each fills a seat (`skerry invite --node-of`), a majority of the seats agrees on which nodes count, and the number stays as it is.
        seats: u32 = 1,
        /// The area that the site stands in: a town, a ship, a data centre. Buckets may want copies in areas (`copies`), or live in one. Holds until an operator says otherwise (`skerry site area`). Empty: none.
        area: String = String::new(),
    }
    /// The S3 endpoint.
    s3: S3 {
        /// Where it listens.
        listen: String = "127.0.0.1:7600".into(),
        /// Host names under which buckets are addressed as `BUCKET.NAME`; path style works always.
        domains: Vec<String> = Vec::new(),
        /// The region that signatures must name. Empty: any.
        region: String = String::new(),
        /// Whose the names are that buckets get here. `federation`: everybody's. `site`: CreateBucket `pos` makes `pos--SITE`, and `pos` means that one here, so that one image runs at every site.
        bucket_scope: BucketScope = BucketScope::Federation,
        /// Allows plain HTTP off loopback: bodies then cross the network readable.
        insecure: bool = false,
    }
    /// What buckets get that are made here, where nobody says otherwise.
    bucket: NewBuckets {
        /// At how many sites everything in them is to be. `auto`: at 2, in the background, once this site knows of another one; a bucket that is made while it is alone stays at 1. `skerry bucket set NAME --copies N` changes it at any time.
        copies: Copies = Copies::Auto,
    }
    /// The admin interface under `/_skerry/`.
    admin: Admin {
        /// Where it listens, with TLS if `tls.certificate` is set; the S3 endpoint then has no `/_skerry/`. Empty: on the S3 endpoint.
        listen: String = String::new(),
        /// File of the admin token, from `node.dir`. Made at the first start; one of your own should have 16 letters at least.
        token_file: String = "admin.token".into(),
    }
    /// Links to other sites.
    peer: Peer {
        /// Where it listens. Only nodes that prove a known key, or join with a token, get past the handshake.
        listen: String = "0.0.0.0:7700".into(),
        /// Where other sites can dial this one, as `host:port`, the best first. Empty: `peer.listen` if it names an address; else this site has to dial the others.
        advertise: Vec<String> = Vec::new(),
        /// Records of small writes come and go with the news of them: they are at other sites after half a round trip instead of one and a half. `false`: this site neither sends nor takes them so, for links that are paid by the byte.
        fresh: bool = true,
        /// Carries links between two other sites that cannot reach each other and are both linked with this one: their bytes cross its links twice, unread. On a metered link that ends with the budget for copies. `false`: it carries nothing for others.
        relay: bool = true,
        /// Congestion control of links, by the kernel's name for it. `bbr` keeps its speed where packets get lost; on a far line that loses none `cubic` is a third faster. What the kernel refuses is said in the log and by `skerry status`, and its own is used; so it is where this is empty.
        congestion: String = "bbr".into(),
        /// After its start a site waits so long at most for links to others before it refuses what only they have. 0s: not at all.
        start_wait: Span = Span(Duration::from_secs(3)),
    }
    /// TLS of the S3 endpoint.
    tls: Tls {
        /// File of the certificate chain (PEM). Reloaded when it changes. Empty: plain HTTP.
        certificate: String = String::new(),
        /// File of its private key (PEM).
        key: String = String::new(),
    }
    /// Who may do what.
    auth: Auth {
        /// The rule for clock skew of signed requests. `strict`: 15 minutes. `island`: also while this site's clock is not to be trusted.
        clock: Clock = Clock::Island,
    }
    /// The disk.
    storage: Storage {
        /// When an answered write is on disk. `full`: before the answer. `os`: some seconds later, for plain writes of objects: a power cut or a crash of the system, not the end of this process, then loses those answered last. Conditional writes, writes that name a scope, buckets, keys and copies for other sites are on disk before the answer all the same.
        sync: Sync = Sync::Full,
        /// Acts like a full disk beyond this. 0: only the disk is the limit.
        capacity: Size = Size(0),
        /// Size of a journal segment.
        journal_segment: Size = Size(64 << 20),
        /// Size of a payload segment.
        payload_segment: Size = Size(256 << 20),
        /// Memory of the index: changes not flushed yet, and a fifth for blocks that were read. At most an eighth of what the machine or its control group has. `auto`, or left out: 10 MiB, on any machine: blocks that are not among them are in the system's cache of files. While the disk refuses flushes there may be half as much again of changes, then only deletes are taken, up to three times as much.
        memory: Fit = Fit::Auto,
        /// Payload written but not synced before writers wait: bounds dirty memory, and how long a sync takes. At most an eighth of what the machine or its control group has. `auto`, or left out: 16 MiB on a card or stick, else 64 MiB.
        dirty: Fit = Fit::Auto,
        /// Bytes per second at most that are written again to get space back where files cannot be punched, or little is left in one; a disk that is nearly full is not paced. `auto`, or left out: 4 MiB on a card or stick, 32 MiB on a solid-state disk, 8 MiB on what turns or is not known.
        pace: Fit = Fit::Auto,
        /// Copies of remote objects are evicted beyond this. `auto`: a quarter of the disk. 0: none are kept. A full disk evicts them before it refuses writes, whatever the cap.
        cache: Cap = Cap::Auto,
        /// Copies for other sites that are held here take no more than this; what is held is never dropped for it. `auto`: four fifths of the disk, so that the rest is left for what is written here. 100%: only the disk is the limit. 0: none are taken. Who is refused asks another site; if there is none, what lacks copies is shown there as AT RISK.
        others: Cap = Cap::Auto,
        /// The index engine. `memory` rebuilds it at each start. On a card or stick the blocks of `lsm` are packed (LZ4), which a release before 27 November does not read: it rebuilds the index.
        index: Engine = Engine::Lsm,
    }
    /// Reading everything again, to find damage while another site has a copy.
    scrub: Scrub {
        /// Everything is read once in this time. 0s: never.
        period: Span = Span(Duration::from_secs(30 * 86_400)),
        /// Bytes per second at most; it makes way for clients besides. `auto`, or left out: as of `storage.pace`.
        pace: Fit = Fit::Auto,
    }
    /// Bounds on what clients may take up.
    limits: Limits {
        /// Connections at once; more wait. At most one for each 256 KiB of memory that the machine or its control group has, and always 32.
        connections: u32 = 512,
        /// A client that sends no header in this time is hung up on.
        header_timeout: Span = Span(Duration::from_secs(30)),
        /// A body that makes no progress in this time ends its request.
        body_timeout: Span = Span(Duration::from_secs(60)),
        /// Requests under way get this time to end when the server is told to stop.
        drain: Span = Span(Duration::from_secs(20)),
    }
    /// What is logged.
    log: Log {
        /// Level, or levels by target as `info,skerry_node::net=debug`.
        level: String = "info".into(),
        /// The form of log lines.
        format: LogFormat = LogFormat::Text,
    }
}
