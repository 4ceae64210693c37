//! Sites that pay for what crosses their links: who says so, who is told; and how long links rest, those of such sites and
//! those of sites that have very many.
//!
//! A link with such a site at one end is asked seldom whether its other end is there ([`crate::rest`]), SWIM does not probe over
//! it ([`crate::membership`]). Of more than 144 links each is asked less often, too, so that all of them cost no more than so
//! many: of that nobody is told, as all sites count the same roster, and SWIM probes as ever. Invariants: said only to who
//! understands it; what a site said is true until it says otherwise, or speaks a dialect that cannot say it. Who has not heard
//! it asks too often, and nothing else: who is a landmark is drawn by what records say of who pays ([`crate::SiteEntry`]),
//! because on that all must agree, whether linked or not.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::SiteId;

use crate::context::Context;
use crate::message::Message;
use crate::{Output, limits};

/// How long a link rests, and whether one of its ends pays for what crosses.
type Rest = (Duration, bool);

/// What was said, and what the shell was told.
#[derive(Debug, Default)]
pub(crate) struct Metered {
    /// Links that rest longer than others.
    rests: BTreeMap<SiteId, Rest>,
}

impl Metered {
    /// This site pays, or does not: everybody is told.
    pub(crate) fn set(&mut self, every: Option<Duration>, free: BTreeSet<SiteId>, cx: &mut Context<'_>) {
        let near = cx.peers.near();
        let before: Vec<_> = near.iter().map(|site| cx.peers.pays_for(*site)).collect();
        cx.peers.set_pays(every, free);
        for (site, before) in near.into_iter().zip(before) {
            if cx.peers.pays_for(site) != before {
                tell(site, cx);
            }
        }
        self.settle(cx);
    }

    /// A new link: the shell may have forgotten, or remember what holds no more.
    pub(crate) fn link_up(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let rest = self.note(site, cx).1;
        say(site, rest, cx);
    }

    /// The other end of a link understands so much.
    pub(crate) fn met(&mut self, site: SiteId, dialect: u8, cx: &mut Context<'_>) {
        if dialect < limits::METERED {
            cx.peers.set_payer(site, None);
        } else {
            tell(site, cx);
        }
        self.weigh(site, cx);
    }

    /// Another pays, or does not.
    pub(crate) fn heard(&mut self, from: SiteId, every_secs: u32, cx: &mut Context<'_>) {
        let every = (every_secs > 0).then(|| Duration::from_secs(every_secs.into()));
        cx.peers.set_payer(from, every);
        self.weigh(from, cx);
    }

    pub(crate) fn roster_changed(&mut self, gone: &[SiteId], cx: &mut Context<'_>) {
        for site in gone {
            self.rests.remove(site);
        }
        self.settle(cx);
    }

    /// Tells the shell what is not as it was.
    fn settle(&mut self, cx: &mut Context<'_>) {
        cx.peers.near().into_iter().for_each(|site| self.weigh(site, cx));
    }

    /// The same of one link, if it stands.
    fn weigh(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if cx.peers.is_linked(site) {
            let (before, rest) = self.note(site, cx);
            if before != rest {
                say(site, rest, cx);
            }
        }
    }

    /// How a link rested as far as the shell knows, and how it does from now on.
    fn note(&mut self, site: SiteId, cx: &Context<'_>) -> (Option<Rest>, Option<Rest>) {
        let paid = cx.peers.rests(site).is_some();
        let rest = cx.peers.silence(site).map(|every| (every, paid));
        let before = match rest {
            Some(rest) => self.rests.insert(site, rest),
            None => self.rests.remove(&site),
        };
        (before, rest)
    }
}

/// Tells the shell.
fn say(site: SiteId, rest: Option<Rest>, cx: &mut Context<'_>) {
    let (every, paid) = rest.unzip();
    cx.out.push(Output::Rests { site, every, paid: paid.unwrap_or(false) });
}

/// Tells one site; also when it may ask again for what there was no budget for. That this one does not pay is said as well: it may have paid in an earlier life.
pub(crate) fn tell(site: SiteId, cx: &mut Context<'_>) {
    if cx.peers.speaks_at_least(site, limits::METERED) {
        let every = cx.peers.pays_for(site).unwrap_or_default().as_secs();
        let every_secs = u32::try_from(every).unwrap_or(u32::MAX);
        cx.send(site, Message::Metered { every_secs });
    }
}
