//! The budget of the uplink as an operator sees and sets it, and its count on disk.
//!
//! Invariants: a budget is durable before it counts, and what cannot be is refused with what would do; that there is one, or
//! none any more, is said to all sites.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::{WallTime, codec};
use skerry_federation::budget::{Class, Period, Plan, Verdict};
use skerry_gateway::service::{
    Outcome, ServiceError, UplinkBudget, UplinkClass, UplinkRequest, UplinkState, VERSION,
};
use skerry_model::Entry;

use crate::own_site;
use crate::peers::uplink::{ACCOUNT, PLAN, name};
use crate::site::{Site, entry};

fn plan(budget: &UplinkBudget) -> Outcome<Plan> {
    let period = match budget.period.as_str() {
        "month" => Period::Month,
        "day" => Period::Day,
        other => {
            return Err(ServiceError::invalid(format!(
                "the period of a budget is month or day, not {other}"
            )));
        }
    };
    let plan = Plan {
        bytes: budget.bytes,
        period,
        reset_day: budget.reset_day,
        hours: budget.hours,
        zone_minutes: budget.zone_minutes,
    };
    plan.check().map_err(|error| ServiceError::invalid(error.to_string()))?;
    Ok(plan)
}

/// Whether a budget can be, at whatever site.
pub fn check(budget: &UplinkBudget) -> Result<(), String> {
    plan(budget).map(drop).map_err(|error| error.message().to_owned())
}

fn shown(plan: &Plan) -> UplinkBudget {
    UplinkBudget {
        bytes: plan.bytes,
        period: match plan.period {
            Period::Month => "month",
            Period::Day => "day",
        }
        .into(),
        reset_day: plan.reset_day,
        hours: plan.hours,
        zone_minutes: plan.zone_minutes,
    }
}

/// How it stands.
pub(crate) fn state(site: &Site) -> UplinkState {
    let standing = site.peers.uplink.standing();
    let class = |(class, verdict): (Class, Verdict)| {
        let not_before = match verdict {
            Verdict::Go => None,
            Verdict::Spent(WallTime(at)) | Verdict::Closed(WallTime(at)) => Some(at),
        };
        UplinkClass { name: name(class).into(), goes: not_before.is_none(), not_before_ms: not_before }
    };
    UplinkState {
        version: VERSION,
        budget: standing.plan.as_ref().map(shown),
        used_bytes: standing.account.used,
        since_ms: standing.account.since.0,
        ends_ms: standing.ends.map(|WallTime(at)| at),
        classes: Class::ALL.into_iter().zip(standing.verdicts).map(class).collect(),
    }
}

/// Sets or lifts it.
pub(crate) async fn set(site: &Arc<Site>, request: UplinkRequest) -> Outcome<UplinkState> {
    let plan = request.budget.as_ref().map(plan).transpose()?;
    let value = plan.map(|plan| codec::encode(&plan).into());
    keep(site, PLAN, value).await?;
    let account = site.peers.uplink.set(plan);
    keep(site, ACCOUNT, plan.map(|_| codec::encode(&account).into())).await?;
    tracing::info!(metered = plan.is_some(), "the budget of the uplink");
    // It holds; what is not said now is said with the next change of what all sites know, or at the next start.
    if let Err(error) = own_site::keep_metered(site).await {
        tracing::warn!(%error, "the other sites were not told whether this one pays for its link");
    }
    Ok(state(site))
}

/// Writes the count down.
pub(crate) async fn remember(site: &Site) {
    let Some(account) = site.peers.uplink.to_remember() else { return };
    if let Err(error) = keep(site, ACCOUNT, Some(codec::encode(&account).into())).await {
        tracing::warn!(%error, "what crossed the metered link was not written down");
    }
}

/// Writes it down whenever enough crossed, for ever.
pub(crate) async fn work(site: Arc<Site>) {
    loop {
        site.peers.uplink.due().await;
        remember(&site).await;
    }
}

async fn keep(site: &Site, key: &'static [u8], value: Option<Bytes>) -> Outcome<()> {
    let entry = entry(&Entry::Local { key: Bytes::from_static(key), value });
    site.commit(site.system, (), move |_| Ok(((), vec![entry]))).await
}
