//! Transcripts of liveness.
