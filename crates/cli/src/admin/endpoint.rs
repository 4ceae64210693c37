//! Where a site listens, as `http://HOST:PORT` or `https://HOST:PORT`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The address of a site's HTTP faces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// Name or address, without brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
}

impl Endpoint {
    /// `HOST:PORT`, as the Host header has it.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Endpoint {
    /// Whether nobody beside the two ends can read what is said: TLS, or this machine alone.
    pub(crate) fn is_private(&self) -> bool {
        let is_here = self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.tls || is_here || self.host == "localhost"
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no endpoint; say http://HOST:PORT or https://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(Self { tls, host: host.to_owned(), port: port.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}", if self.tls { "s" } else { "" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_tls_and_this_machine_are_private() {
        let private = |text: &str| text.parse::<Endpoint>().unwrap().is_private();
        for text in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://box.example:1"] {
            assert!(private(text), "{text}");
        }
        for text in ["http://10.0.0.1:1", "http://[fd00::1]:1", "http://127.0.0.1.example:1"] {
            assert!(!private(text), "{text}");
        }
    }

    #[test]
    fn endpoints_are_read_and_printed() {
        for text in ["http://127.0.0.1:7600", "https://store.example:443", "http://[::1]:7600"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("http://h:1/".parse::<Endpoint>().unwrap().host, "h");
        for wrong in [
            "",
            "127.0.0.1:7600",
            "ftp://h:1",
            "http://h",
            "http://:1",
            "http://h:x",
            "http://h:70000",
            "http://h:1/x:2",
        ] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
