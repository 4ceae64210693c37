//! Fixtures and hostile bytes.
