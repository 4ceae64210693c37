//! The ports of a node as firewall rules.

use std::fmt::Write as _;

use super::Config;
use super::check::{host_port, is_loopback};

/// What to let in, as comments and rules for nftables.
pub fn ports(config: &Config) -> String {
    let mut text = String::from("# Inbound TCP of this node; outbound: the peer ports of other sites.\n");
    let mut rule = |what: &str, listen: &str| {
        let Some((host, port)) = host_port(listen) else { return };
        // Writing to a String cannot fail.
        let _ = match is_loopback(host) {
            true => writeln!(text, "# {what}: {listen}, this machine only: no rule needed"),
            false => {
                writeln!(text, "# {what}: {listen}\nnft add rule inet filter input tcp dport {port} accept")
            }
        };
    };
    let s3 = if config.tls.certificate.is_empty() { "S3, plain HTTP" } else { "S3, TLS" };
    rule(s3, &config.s3.listen);
    if !config.admin.listen.is_empty() {
        rule("Admin interface and metrics", &config.admin.listen);
    }
    rule("Other sites (TLS 1.3, both ends proven)", &config.peer.listen);
    text
}
