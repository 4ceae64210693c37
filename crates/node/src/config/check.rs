//! Values that must go together.

use std::net::IpAddr;
use std::time::Duration;

use super::kinds::{Cap, Fit};
use super::{Config, ConfigError};

/// The longest name that Linux gives a congestion control.
const CONGESTION_BYTES: usize = 15;

fn wrong(field: &'static str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value { place: String::new(), field, reason: reason.into() }
}

/// Host and port of `host:port` or `[v6]:port`.
pub(super) fn host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bracketed {
        Some(inside) => inside.parse::<IpAddr>().ok().map(|_| inside)?,
        None if host.is_empty() || host.contains([':', '[', ']', '/', ' ']) => return None,
        None => host,
    };
    Some((host, port))
}

/// Whether others can dial it: `host:port` or `[v6]:port`, with a port.
pub fn is_dialable(text: &str) -> bool {
    text.len() <= 300 && host_port(text).is_some_and(|(_, port)| port != 0)
}

/// Whether a host is this machine only.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn address(field: &'static str, text: &str) -> Result<(), ConfigError> {
    match host_port(text) {
        Some(_) => Ok(()),
        None => Err(wrong(field, format!("`{text}` is not `host:port` or `[v6 address]:port`"))),
    }
}

impl Config {
    /// Checks what single fields cannot say.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.check_addresses()?;
        self.check_tls()?;
        self.check_storage()?;
        let (seats, most) = (self.site.seats, skerry_federation::site_view::limits::SEATS);
        if seats == 0 || usize::try_from(seats).is_ok_and(|seats| seats > most) {
            return Err(wrong("site.seats", format!("{seats} is not from 1 to {most}")));
        }
        let area = &self.site.area;
        if !area.is_empty() && !skerry_model::bucket::is_area_name(area) {
            return Err(wrong(
                "site.area",
                format!(
                    "`{area}` is no name of an area: up to 32 of a-z, 0-9 and single hyphens, and not each, all, none or in"
                ),
            ));
        }
        let limits = &self.limits;
        if limits.connections == 0 {
            return Err(wrong("limits.connections", "must be at least 1"));
        }
        for (field, span) in
            [("limits.header_timeout", limits.header_timeout), ("limits.body_timeout", limits.body_timeout)]
        {
            if span.0 < Duration::from_secs(1) {
                return Err(wrong(field, "must be at least 1s"));
            }
        }
        crate::telemetry::log::filter(&self.log.level).map_err(|reason| wrong("log.level", reason)).map(drop)
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        address("s3.listen", &self.s3.listen)?;
        address("peer.listen", &self.peer.listen)?;
        if !self.admin.listen.is_empty() {
            address("admin.listen", &self.admin.listen)?;
        }
        for name in &self.peer.advertise {
            address("peer.advertise", name)?;
            if host_port(name).is_some_and(|(_, port)| port == 0) {
                return Err(wrong("peer.advertise", format!("`{name}` names port 0, which nobody can dial")));
            }
        }
        for name in &self.s3.domains {
            let label = |label: &str| {
                !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            };
            if !name.split('.').all(label) {
                return Err(wrong("s3.domains", format!("`{name}` is not a host name")));
            }
        }
        let congestion = &self.peer.congestion;
        let word = congestion.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !word || congestion.len() > CONGESTION_BYTES {
            let reason =
                format!("`{congestion}` is no name of a congestion control, such as `cubic` or `bbr`");
            return Err(wrong("peer.congestion", reason));
        }
        let clash = |a: &str, b: &str| a == b && !a.ends_with(":0");
        if clash(&self.s3.listen, &self.peer.listen) {
            return Err(wrong("peer.listen", "is the same as s3.listen; each needs a port of its own"));
        }
        if clash(&self.admin.listen, &self.s3.listen) {
            let reason = "is the same as s3.listen; leave it out and administration is served there";
            return Err(wrong("admin.listen", reason));
        }
        if clash(&self.admin.listen, &self.peer.listen) {
            return Err(wrong("admin.listen", "is the same as peer.listen; each needs a port of its own"));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        match (self.tls.certificate.is_empty(), self.tls.key.is_empty()) {
            (false, true) => return Err(wrong("tls.key", "is missing; tls.certificate is given")),
            (true, false) => return Err(wrong("tls.certificate", "is missing; tls.key is given")),
            (false, false) => return Ok(()),
            (true, true) => {}
        }
        for (field, listen) in [("s3.listen", &self.s3.listen), ("admin.listen", &self.admin.listen)] {
            let open = host_port(listen).is_some_and(|(host, _)| !is_loopback(host));
            if open && !self.s3.insecure {
                let reason = format!(
                    "`{listen}` is off loopback without TLS; set tls.certificate and tls.key, or s3.insecure = true"
                );
                return Err(wrong(field, reason));
            }
        }
        Ok(())
    }

    fn check_storage(&self) -> Result<(), ConfigError> {
        let storage = &self.storage;
        let bounds = [
            ("storage.journal_segment", Fit::Bytes(storage.journal_segment), 1, 1 << 30),
            ("storage.payload_segment", Fit::Bytes(storage.payload_segment), 4, 4 << 30),
            ("storage.memory", storage.memory, 2, 64 << 30),
            ("storage.dirty", storage.dirty, 4, 64 << 30),
            ("storage.pace", storage.pace, 1, 64 << 30),
        ];
        for (field, size, least_mib, most) in bounds {
            // What suits a machine is sound.
            let Fit::Bytes(size) = size else { continue };
            if size.0 < least_mib << 20 || size.0 > most {
                let most = super::Size(most);
                return Err(wrong(field, format!("{size} is not from {least_mib} MiB to {most}")));
            }
        }
        if storage.capacity.0 > 0 && storage.capacity.0 < 4 * storage.journal_segment.0 {
            let least = super::Size(4 * storage.journal_segment.0);
            let reason = format!(
                "{} is too little, at least {least}: four segments of the journal, and nothing could be stored",
                storage.capacity
            );
            return Err(wrong("storage.capacity", reason));
        }
        if let Cap::Bytes(others) = storage.others
            && storage.capacity.0 > 0
            && others > storage.capacity
        {
            let reason = format!(
                "{others} is more than storage.capacity ({}) and would bound nothing; say less, or 100%",
                storage.capacity
            );
            return Err(wrong("storage.others", reason));
        }
        Ok(())
    }
}
