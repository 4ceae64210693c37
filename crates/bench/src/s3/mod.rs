//! Any S3 endpoint as a target: plain HTTP or TLS, Signature V4.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::target::{Ask, Done, Slot, Target};

/// How to reach an S3 service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Config {
    /// `http://HOST:PORT` or `https://HOST:PORT`; with several, see `choose`.
    pub endpoints: Vec<String>,
    /// Access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// Region in the signature.
    #[serde(default = "default_region")]
    pub region: String,
    /// Which endpoint an operation goes to.
    #[serde(default)]
    pub choose: Choose,
    /// Where the bucket's name stands.
    #[serde(default)]
    pub addressing: Addressing,
    /// Whether the signature covers the body (SHA-256, costs CPU).
    #[serde(default)]
    pub sign_payload: bool,
    /// Certificates (PEM) of authorities to trust, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_pem: Option<String>,
}

/// Which of several endpoints an operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// Worker n to endpoint n, around.
    #[default]
    Worker,
    /// A different one for each operation: by the hash of operation and key.
    Hash,
}

/// Where the bucket's name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// In the path.
    #[default]
    Path,
    /// Before the host's name.
    Virtual,
}

fn default_region() -> String {
    "us-east-1".into()
}

/// Why an S3 target cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// An S3 service under load.
#[derive(Debug)]
pub struct S3Target {
    config: S3Config,
}

impl S3Target {
    /// Checks the settings; connects to nothing.
    pub fn new(config: S3Config) -> Result<Self, ConfigError> {
        Ok(Self { config })
    }
}

#[async_trait]
impl Target for S3Target {
    fn describe(&self) -> String {
        format!("s3 {}", self.config.endpoints.join(" "))
    }

    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done {
        let _ = (slot, ask);
        Done::default()
    }
}
