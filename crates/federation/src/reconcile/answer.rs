//! The answering side of a comparison: reads, answers, keeps nothing.

use skerry_base::{SiteId, Vector};

use super::session::within;
use crate::context::Context;
use crate::message::{Compare, Holding, Message, Probe, Verdict};
use crate::replica::encode_gaps;
use crate::{Fingerprint, Span, Unreadable, limits};

impl super::Reconcile {
    /// Answers the first step. `member` says whether this site follows the bucket.
    pub(crate) fn compare(&self, from: SiteId, compare: &Compare, member: bool, cx: &mut Context<'_>) {
        let verdict = match member {
            true => cx.read(verdict(compare, cx)),
            false => None,
        };
        let (ticket, bucket) = (compare.ticket, compare.bucket);
        let (doubt, verdict) = verdict.unwrap_or((Vector::new(), Verdict::Unfit));
        cx.send(from, Message::Compared { ticket, bucket, doubt, verdict });
    }

    /// Answers the next steps: each by itself, as nothing is kept of those before.
    pub(crate) fn probe(&self, from: SiteId, probe: &Probe, member: bool, cx: &mut Context<'_>) {
        let (ticket, bucket) = (probe.ticket, probe.bucket);
        if !member {
            return cx.send(from, Message::NotMember { bucket });
        }
        // Who has left the bucket since the first step, and joined it again, vouches for nothing: what it lacks is not dead.
        let Some(vector) = cx.read(cx.replica.vector(bucket)) else { return };
        if probe.spans.iter().any(|span| vector.get(span.origin) < span.last) {
            let (doubt, verdict) = (Vector::new(), Verdict::Unfit);
            return cx.send(from, Message::Compared { ticket, bucket, doubt, verdict });
        }
        let doubt = cx.replica.doubt(bucket);
        let holdings = probe.spans.iter().map(|span| holding(probe, span, cx)).collect();
        if let (Some(doubt), Some(holdings)) = (cx.read(doubt), cx.read(holdings)) {
            cx.send(from, Message::Probed { ticket, bucket, doubt, holdings });
        }
    }
}

fn verdict(compare: &Compare, cx: &Context<'_>) -> Result<(Vector, Verdict), Unreadable> {
    let bucket = compare.bucket;
    let vector = cx.replica.vector(bucket)?;
    let doubt = cx.replica.doubt(bucket)?;
    if !vector.includes(&compare.limit) {
        return Ok((doubt, Verdict::Beyond(vector)));
    }
    if within(bucket, &compare.limit, cx)? == compare.all {
        return Ok((doubt, Verdict::Equal));
    }
    let print = |(origin, last)| cx.replica.fingerprint(bucket, &Span { origin, first: 1, last });
    let prints = compare.limit.iter().map(print).collect::<Result<Vec<Fingerprint>, _>>()?;
    Ok((doubt, Verdict::Differs(prints)))
}

fn holding(probe: &Probe, span: &Span, cx: &Context<'_>) -> Result<Holding, Unreadable> {
    let bucket = probe.bucket;
    let print = cx.replica.fingerprint(bucket, span)?;
    if print.count > limits::SPAN_LIST {
        let print = |child: &Span| cx.replica.fingerprint(bucket, child);
        let prints: Result<Vec<Fingerprint>, _> = span.children().iter().map(print).collect();
        return prints.map(Holding::Children);
    }
    let seqs = cx.replica.dots_in(bucket, span, limits::SPAN_LIST as usize)?;
    Ok(Holding::Dots(encode_gaps(span, &seqs)))
}
