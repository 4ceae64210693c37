//! HTTP itself: listeners, TLS, limits of time and size, shutdown.
//!
//! Why here: the only module of this crate that opens sockets, spawns tasks and reads a timer. What a request
//! means stands in `s3/` and `admin/`, which see bodies only as streams.

pub(crate) mod body;
