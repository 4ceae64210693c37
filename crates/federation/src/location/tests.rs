//! Transcripts of location.
