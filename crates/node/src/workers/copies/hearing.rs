//! Asks other sites what they hold, beside the looks: whoever does not answer keeps no look waiting for longer than a moment.
//!
//! Before: a look that finds a link over which a site was not asked yet. After: [`claims`], which notes what was said.
//! Invariants: one question of a site is on its way; who was silent is asked again by the next look that finds it linked; a
//! look at a bucket is put off while somebody goes on answering who is to be heard about it, and not for who has said nothing
//! for [`HEED`].

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use skerry_base::{BucketId, Instant, SiteId, Vector};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::copies::claims;
use crate::site::Site;

/// Who says nothing for so long is not waited for: its answer may take fifteen seconds, or never come.
const HEED: Duration = Duration::from_secs(2);
/// Who was silent is not asked again sooner over the same link, nor waited for.
const AGAIN: Duration = Duration::from_secs(5);
/// Nor is anybody waited for longer, however much there is that it says.
const LONGEST: Duration = Duration::from_secs(10);
/// Buckets of which a site may refuse to speak before it is left alone: its link may be metered.
const REFUSED: usize = 16;
/// Words that wait to be taken note of.
const WORDS: usize = 64;

/// What became of a question.
pub(super) enum Word {
    /// A site said what it holds of a bucket, over this link.
    Said(BucketId, SiteId, u64),
    /// It is asked for nothing more. With the link over which it was silent, if it has not said all.
    Over(SiteId, Option<u64>),
}

/// What is to be asked for after a look: of each site, over which link, of which buckets behind which vector.
pub(super) type Questions = BTreeMap<SiteId, (u64, Vec<(BucketId, Vector)>)>;

/// Who was asked, and who is.
pub(super) struct Hearing {
    /// Links over which a site said what it holds.
    done: BTreeMap<(BucketId, SiteId), u64>,
    /// Who is being asked since when, and when it said something last.
    asked: BTreeMap<SiteId, (Instant, Instant)>,
    /// Over which link somebody was silent, and until when that one is left alone.
    silent: BTreeMap<SiteId, (u64, Instant)>,
    /// They end with this.
    asking: JoinSet<()>,
    say: mpsc::Sender<Word>,
    words: mpsc::Receiver<Word>,
}

impl Hearing {
    pub(super) fn new() -> Self {
        let (say, words) = mpsc::channel(WORDS);
        let (done, asked, silent) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { done, asked, silent, asking: JoinSet::new(), say, words }
    }

    /// Nothing is known of a bucket any more.
    pub(super) fn forget(&mut self, bucket: BucketId) {
        self.done.retain(|(of, _), _| *of != bucket);
    }

    /// Whether a site is to be asked over a link what it holds of a bucket.
    pub(super) fn lacks(&self, bucket: BucketId, (site, link): (SiteId, u64), now: Instant) -> bool {
        let rests = self.silent.get(&site).is_some_and(|(of, until)| *of == link && *until > now);
        !rests && self.done.get(&(bucket, site)) != Some(&link)
    }

    /// Until when a look at a bucket that lacks a site's word waits for it; none: it does not.
    pub(super) fn waits_until(&self, site: SiteId, now: Instant) -> Option<Instant> {
        let (begun, heard) = self.asked.get(&site).copied().unwrap_or((now, now));
        let until = heard.after(HEED).min(begun.after(LONGEST));
        (until > now).then_some(until)
    }

    /// Whether nobody is being asked.
    pub(super) fn is_over(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks them, those apart that are being asked.
    pub(super) fn ask(&mut self, site: &Arc<Site>, questions: Questions) {
        for (other, (link, of)) in questions {
            if self.asked.contains_key(&other) {
                continue;
            }
            let (site, say) = (site.clone(), self.say.clone());
            let now = site.clock.now();
            self.asked.insert(other, (now, now));
            self.asking.spawn(async move {
                let asking = async {
                    let mut refused = 0;
                    for (bucket, from) in of {
                        match claims::ask(&site, bucket, other, &from).await {
                            claims::Word::Said => drop(say.send(Word::Said(bucket, other, link)).await),
                            // What it says of the next does not hang on that.
                            claims::Word::Refused if refused < REFUSED => refused += 1,
                            claims::Word::Refused | claims::Word::Silent => return false,
                        }
                    }
                    refused == 0
                };
                // However it ends it is heard of: else this site would never be asked again.
                let said_all = AssertUnwindSafe(asking).catch_unwind().await.unwrap_or(false);
                say.send(Word::Over(other, (!said_all).then_some(link))).await.ok();
            });
        }
    }

    /// The next word; for ever none while nobody is asked.
    pub(super) async fn next(&mut self) -> Option<Word> {
        self.words.recv().await
    }

    /// Takes note of it.
    pub(super) fn take(&mut self, word: &Word, now: Instant) {
        match *word {
            Word::Said(bucket, site, link) => {
                self.done.insert((bucket, site), link);
                if let Some((_, heard)) = self.asked.get_mut(&site) {
                    *heard = now;
                }
            }
            Word::Over(site, silent) => {
                self.asked.remove(&site);
                match silent {
                    Some(link) => self.silent.insert(site, (link, now.after(AGAIN))),
                    None => self.silent.remove(&site),
                };
                while self.asking.try_join_next().is_some() {}
            }
        }
    }
}
