//! Transcripts of feeds.
