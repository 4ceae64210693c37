//! Transcripts of comparisons.
