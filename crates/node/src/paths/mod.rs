//! The paths of a request: a file for each S3 action, and for what they share, over the store, the federation machine and other
//! sites.
//!
//! Why here: the gateway knows no disk and no site, the store no bucket; here they meet. Invariants: at a
//! whole member nothing of a plain read, write, list or bucket creation waits for another site, nor of a delete of what is here.

pub(crate) mod acquaint;
pub(crate) mod answer;
pub(crate) mod at_once;
pub(crate) mod bucket;
pub(crate) mod buckets;
pub(crate) mod conflicts;
pub(crate) mod copy;
pub(crate) mod credentials;
pub(crate) mod dead;
pub(crate) mod declared;
pub(crate) mod delete;
pub(crate) mod far;
pub(crate) mod forward;
pub(crate) mod get;
pub(crate) mod giving;
pub(crate) mod goal;
pub(crate) mod hands;
pub(crate) mod heard;
mod heir;
pub(crate) mod held;
pub(crate) mod home;
pub(crate) mod ingest;
pub(crate) mod list;
pub(crate) mod list_uploads;
pub(crate) mod lost;
pub(crate) mod members;
mod nearby;
pub(crate) mod newer;
pub(crate) mod objects;
pub(crate) mod orphans;
pub(crate) mod places;
pub(crate) mod put;
pub(crate) mod refusal;
pub(crate) mod register;
pub(crate) mod relay;
pub(crate) mod scope;
pub(crate) mod seek;
mod seen;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod taking;
pub(crate) mod tenure;
mod through;
pub(crate) mod unfinished;
pub(crate) mod upload;
pub(crate) mod within;
pub(crate) mod write;
