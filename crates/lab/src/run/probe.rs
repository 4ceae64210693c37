//! Before a cell: its bucket exists everywhere, and a write is accepted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use skerry_bench::plan::{self, Keys, Plan};
use skerry_bench::target::Operation;

use super::error::RunError;
use super::phase::{Answer, Heard, Stand, Subject, heard, target};
use super::talk::Ask;
use crate::rivals::TargetConfig;
use crate::systems::Kind;

/// A bucket must be known at every site within this time.
const VISIBLE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// One question takes no longer.
const QUESTION: Duration = Duration::from_secs(60);

impl Stand<'_> {
    /// Makes the bucket, or one at each site, and waits until every client's site knows it. Answers why it cannot be
    /// used, if so.
    pub(super) fn prepare(
        &mut self,
        subject: &Subject<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<String>, RunError> {
        let sites = if subject.is_per_site { self.sites.len() } else { 1 };
        for site in 0..sites {
            let refused = self.make(subject, site, warnings)?;
            if refused.is_some() {
                return Ok(refused);
            }
        }
        Ok(None)
    }

    fn make(
        &mut self,
        subject: &Subject<'_>,
        site: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Option<String>, RunError> {
        // A site without clients asks for nothing.
        let Some(client) = self.clients.iter().position(|client| client.site == site) else {
            return Ok(None);
        };
        let scope = subject.setting.scope();
        let settings = match scope {
            "site" => BTreeMap::new(),
            scope => BTreeMap::from([("scope".to_owned(), scope.to_owned())]),
        };
        let bucket = subject.bucket_of(site);
        match self.running.bucket(self.ground, site, &bucket, &settings) {
            Ok(unknown) if unknown.is_empty() => {}
            Ok(unknown) => {
                let words = unknown.iter().filter_map(|name| Some(format!("{name} {}", settings.get(name)?)));
                let words: Vec<String> = words.collect();
                return Ok(Some(format!("{}: this system has no word for it", words.join(", "))));
            }
            Err(error) => {
                return Ok(Some(format!("scope {scope}: refused: {}", last_line(&error.to_string()))));
            }
        }
        // Systems with a verb of their own have the bucket by now and say so: the look below is what counts.
        self.question(client, (subject, &bucket), Operation::CreateBucket)?;
        self.visible(subject, &bucket)?;
        let written = self.question(client, (subject, &bucket), Operation::Put)?;
        let failure = written.samples.iter().find(|sample| !sample.failure.is_empty());
        Ok(failure.map(|sample| {
            let story = written.examples.get(&*sample.failure).cloned().unwrap_or_default();
            warnings.extend((!story.is_empty()).then(|| format!("scope {scope}: {story}")));
            format!("scope {scope}: answered {}", sample.failure)
        }))
    }

    fn visible(&mut self, subject: &Subject<'_>, bucket: &str) -> Result<(), RunError> {
        if self.running.kind() != Kind::S3 {
            return Ok(());
        }
        let by = Instant::now() + VISIBLE;
        for (client, node) in self.asked()? {
            loop {
                let plan = question((subject, bucket), client, Operation::Get);
                let answer = self.single(client, plan, Some(node.clone()))?;
                let failure =
                    answer.samples.first().map(|sample| sample.failure.to_string()).unwrap_or_default();
                if failure.is_empty() || failure.contains("NoSuchKey") {
                    break;
                }
                if Instant::now() > by {
                    let host = self.clients.get(client).map_or("", |client| client.host.as_str());
                    return Err(RunError::Network(format!(
                        "bucket {bucket} is not to be used from {host} after {VISIBLE:?}: {failure}"
                    )));
                }
                self.watch.wait(self.running, PAUSE, || Ok(false))?;
            }
        }
        Ok(())
    }

    /// Each client with each node that it may ask.
    fn asked(&self) -> Result<Vec<(usize, TargetConfig)>, RunError> {
        let mut asked = Vec::new();
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| client.slot == 0) {
            let nodes = target(self.running, client.site, self.shared)?.each();
            asked.extend(nodes.into_iter().map(|node| (index, node)));
        }
        Ok(asked)
    }

    /// One operation of one client in a bucket, outside any phase.
    pub(super) fn question(
        &mut self,
        client: usize,
        (subject, bucket): (&Subject<'_>, &str),
        operation: Operation,
    ) -> Result<Answer, RunError> {
        self.single(client, question((subject, bucket), client, operation), None)
    }

    /// One plan for one client, waited for; against any node of its site if none is named.
    pub(super) fn single(
        &mut self,
        index: usize,
        plan: Plan,
        node: Option<TargetConfig>,
    ) -> Result<Answer, RunError> {
        let Some(client) = self.clients.get_mut(index) else {
            return Err(RunError::Plan(format!("there is no client {}", index + 1)));
        };
        let target = node.map_or_else(|| target(self.running, client.site, self.shared), Ok)?;
        let name = plan.name.clone();
        client.ask(&Ask { plan, target })?;
        let mut answer = None;
        let within = QUESTION + QUESTION;
        self.watch.wait(self.running, within, || {
            if let Some(Heard::Answer(heard)) = heard(client)? {
                answer = Some(heard);
            }
            Ok(answer.is_some())
        })?;
        answer.ok_or_else(|| client.wrong(format!("{name}: no answer after {within:?}")))
    }
}

fn question((subject, bucket): (&Subject<'_>, &str), client: usize, operation: Operation) -> Plan {
    let phase = plan::Phase {
        operations: Some(1),
        buckets: vec![bucket.to_owned()],
        keys: Keys { count: 1, prefix: format!("probe-{}-", operation.word()), ..Keys::default() },
        timeout_seconds: QUESTION.as_secs_f64(),
        ..plan::Phase::new("probe", operation)
    };
    Plan { phases: vec![phase], ..plan(subject, client) }
}

/// A plan without phases.
pub(super) fn plan(subject: &Subject<'_>, client: usize) -> Plan {
    Plan {
        name: "probe".into(),
        seed: subject.seed,
        client: client as u64 + 1,
        trials: 1,
        begin_wall_ms: None,
        phases: Vec::new(),
    }
}

fn last_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
