//! Several sites in one process, over the network in memory: what a user is promised.
//!
//! Nothing here sleeps for luck: what takes time is awaited by following a site's changes.

#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod along;
mod caps;
mod checking;
mod circuits;
mod clones;
mod compared;
mod copies;
mod credential_keys;
mod damaged;
mod declared;
mod detours;
mod dialects;
mod duties;
mod ended_streams;
mod erased;
mod flips;
mod followed;
mod followed_faults;
mod followed_writes;
mod forwarded;
mod full_links;
mod going;
mod held;
mod homes;
mod island;
mod joining;
mod keys;
mod landmarks;
mod lazy;
mod leaving;
mod left_behind;
mod lost;
mod lost_entries;
mod metered;
mod nearby;
mod newer;
mod nodes;
mod one_site;
mod orphans;
mod pins;
mod refusing;
mod register;
mod replaced;
mod revived;
mod room;
mod scope;
mod scope_areas;
mod scope_paths;
mod seeking;
mod several_sites;
mod slow;
mod space;
mod sums;
mod tenures;
mod tombstones;
mod trim;
mod uploads;
mod wakes;
mod wanted;
mod within;
mod workers;
mod world;
