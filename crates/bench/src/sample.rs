//! One line for each operation, and the CSV file of them.

use std::io::{Read, Write};
use std::sync::Arc;

use crate::target::Operation;

/// One operation that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The phase.
    pub phase: Arc<str>,
    /// Which trial, from 1.
    pub trial: u64,
    /// Which client.
    pub client: u64,
    /// Which worker of the client.
    pub worker: u64,
    /// Whether it was begun in the warm-up: in the file, not in the figures.
    pub warm_up: bool,
    /// What was asked.
    pub operation: Operation,
    /// Of which bucket.
    pub bucket: Arc<str>,
    /// Of which key.
    pub key: String,
    /// Payload bytes written or read.
    pub bytes: u64,
    /// Nanoseconds from the begin of the phase to the intended begin.
    pub start_ns: u64,
    /// From the intended begin to the true one: more than nothing only at a fixed rate.
    pub wait_ns: u64,
    /// To connect; 0 if the connection was kept.
    pub connect_ns: u64,
    /// From the true begin to the first byte of the answer.
    pub first_byte_ns: u64,
    /// From the intended begin to the last byte: the latency. Waiting and connecting are part of it.
    pub total_ns: u64,
    /// The code of the failure; empty if there was none.
    pub failure: Arc<str>,
}

/// The heading of the CSV file: the names of the fields.
pub const FIELDS: [&str; 15] = [
    "phase",
    "trial",
    "client",
    "worker",
    "warm_up",
    "operation",
    "bucket",
    "key",
    "bytes",
    "start_ns",
    "wait_ns",
    "connect_ns",
    "first_byte_ns",
    "total_ns",
    "failure",
];

/// Why a CSV file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The file itself.
    #[error("{0}")]
    File(#[from] csv::Error),
    /// A line in it.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Writes a heading and a line for each sample.
pub fn write_csv<'a>(to: impl Write, samples: impl IntoIterator<Item = &'a Sample>) -> Result<(), CsvError> {
    let mut file = csv::Writer::from_writer(to);
    file.write_record(FIELDS)?;
    for sample in samples {
        let numbers = [sample.trial, sample.client, sample.worker].map(|number| number.to_string());
        let times = [
            sample.bytes,
            sample.start_ns,
            sample.wait_ns,
            sample.connect_ns,
            sample.first_byte_ns,
            sample.total_ns,
        ]
        .map(|number| number.to_string());
        let warm_up = if sample.warm_up { "1" } else { "0" };
        let [trial, client, worker] = numbers.each_ref().map(String::as_str);
        let [bytes, start, wait, connect, first, total] = times.each_ref().map(String::as_str);
        file.write_record([
            &sample.phase,
            trial,
            client,
            worker,
            warm_up,
            sample.operation.word(),
            &sample.bucket,
            &sample.key,
            bytes,
            start,
            wait,
            connect,
            first,
            total,
            &sample.failure,
        ])?;
    }
    file.flush().map_err(csv::Error::from)?;
    Ok(())
}

/// Reads what [`write_csv`] wrote.
pub fn read_csv(from: impl Read) -> Result<Vec<Sample>, CsvError> {
    let mut file = csv::Reader::from_reader(from);
    if file.headers()?.iter().ne(FIELDS) {
        let reason = format!("the heading must be {}", FIELDS.join(","));
        return Err(CsvError::Line { line: 1, reason });
    }
    let mut words = Words::default();
    let mut samples = Vec::new();
    for record in file.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        samples.push(words.sample(&record).map_err(|reason| CsvError::Line { line, reason })?);
    }
    Ok(samples)
}

/// Words that come again and again are kept once.
#[derive(Default)]
struct Words(std::collections::BTreeSet<Arc<str>>);

impl Words {
    fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.0.get(word) {
            return Arc::clone(known);
        }
        let word: Arc<str> = word.into();
        self.0.insert(Arc::clone(&word));
        word
    }

    fn sample(&mut self, record: &csv::StringRecord) -> Result<Sample, String> {
        let text = |index: usize| record.get(index).unwrap_or_default();
        let number = |index: usize| {
            let field = FIELDS.get(index).copied().unwrap_or_default();
            text(index).parse::<u64>().map_err(|_| format!("{field} is no number: {:?}", text(index)))
        };
        Ok(Sample {
            phase: self.word(text(0)),
            trial: number(1)?,
            client: number(2)?,
            worker: number(3)?,
            warm_up: number(4)? != 0,
            operation: Operation::of_word(text(5))
                .ok_or_else(|| format!("unknown operation {:?}", text(5)))?,
            bucket: self.word(text(6)),
            key: text(7).to_owned(),
            bytes: number(8)?,
            start_ns: number(9)?,
            wait_ns: number(10)?,
            connect_ns: number(11)?,
            first_byte_ns: number(12)?,
            total_ns: number(13)?,
            failure: self.word(text(14)),
        })
    }
}
