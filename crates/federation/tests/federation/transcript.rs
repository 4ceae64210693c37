//! What the machines say to each other, line by line, in the cases that matter.

use skerry_base::Vector;
use skerry_federation::message::{Batch, Holding, Message, Said, Verdict};
use skerry_federation::{Input, Ticket};

use crate::world::{World, bucket, millis, seconds};

fn sum(vector: &Vector) -> u64 {
    vector.iter().map(|(_, seq)| seq).sum()
}

/// A message in a line: vectors as how many records they cover.
pub(crate) fn line(message: &Message) -> String {
    match message {
        Message::Swim(_) => "swim".into(),
        Message::Pull(pull) => format!("pull seen {}", sum(&pull.seen)),
        Message::Batch(batch) => {
            let doubt = if batch.horizon.is_empty() { "" } else { " behind" };
            let end = if batch.end { " end" } else { "" };
            let kind = if batch.ticket == Batch::FRESH { "fresh" } else { "batch" };
            format!("{kind} {} items upto {}{end}{doubt}", batch.items.len(), sum(&batch.upto))
        }
        Message::PullRefused { reason, .. } => format!("refused {reason:?}"),
        Message::News { vector, .. } => format!("news {}", sum(vector)),
        Message::Check { entries, .. } => format!("check {}", entries.len()),
        Message::Compare(compare) => format!("compare {} of {}", compare.all.count, sum(&compare.limit)),
        Message::Compared { verdict, doubt, .. } => {
            let verdict = match verdict {
                Verdict::Equal => "equal".into(),
                Verdict::Differs(origins) => format!("differs {}", origins.len()),
                Verdict::Beyond(vector) => format!("beyond {}", sum(vector)),
                Verdict::Unfit => "unfit".into(),
            };
            format!("{verdict}{}", if doubt.is_empty() { "" } else { " in doubt" })
        }
        Message::Probe(probe) => format!("probe {} spans", probe.spans.len()),
        Message::Probed { holdings, .. } => {
            let said = holdings.iter().map(|holding| match holding {
                Holding::Children(prints) => format!("{} children", prints.len()),
                Holding::Dots(dots) => format!("{} dots", dots.len()),
            });
            format!("holds {}", said.collect::<Vec<_>>().join(", "))
        }
        Message::Dead { dots, .. } => format!("dead {}", dots.len()),
        Message::Publish(publish) => format!("publish {}", publish.changes.len()),
        Message::Published { .. } => "published".into(),
        Message::Locate { .. } => "locate".into(),
        Message::Seek(_) => "seek".into(),
        Message::SeekOn { .. } => "seek on".into(),
        Message::PassOn { .. } => "pass on".into(),
        Message::Said { said, .. } => match said {
            Said::Member => "member".into(),
            Said::PassedOn(_) => "passed on".into(),
            other => format!("{other:?}").to_lowercase(),
        },
        Message::NotMember { .. } => "no member".into(),
        Message::Place(place) => format!("place {}", place.k),
        Message::Withdraw { .. } => "withdraw".into(),
        Message::Census(census) => format!("census {}", census.entries.len()),
        Message::Rolls(rolls) => format!("rolls {}", rolls.rolls.len()),
        Message::Loose { loose, .. } => {
            format!("loose {}", loose.iter().map(|loose| loose.print.count).sum::<u64>())
        }
        Message::Gather(gather) => format!("gather but {}", gather.have.len()),
        Message::Metered { every_secs } => format!("metered {every_secs}"),
        Message::Gathered(gathered) => format!("gathered {}", gathered.items.len()),
    }
}

impl World {
    pub(crate) fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.said), expected);
    }

    /// Two sites that follow a bucket and are caught up.
    pub(crate) fn pair() -> Self {
        Self::pair_of(&[])
    }

    /// The same; some of them take no records with the news of them.
    pub(crate) fn pair_of(plain: &[usize]) -> Self {
        let mut world = Self::new(2, 1, millis(20));
        world.plain.extend(plain);
        (0..2).for_each(|n| world.restart(n));
        world.start();
        (0..2).for_each(|n| world.join(n, bucket(1)));
        world.run(seconds(4));
        world.said.clear();
        world
    }
}

#[test]
fn a_write_is_told_pulled_and_taken() {
    let mut world = World::pair_of(&[1]);
    world.put(0, bucket(1), 1);
    world.put(0, bucket(1), 2);
    world.run(seconds(1));
    world.check(&["0>1 news 1", "1>0 pull seen 0", "0>1 news 2", "0>1 batch 2 items upto 2 end"]);
}

#[test]
fn a_link_brings_checks_and_what_differs() {
    let mut world = World::pair();
    world.cut(0, 1);
    world.run(seconds(1));
    world.put(0, bucket(1), 1);
    world.said.clear();
    world.heal(0, 1);
    world.run(seconds(1));
    world.check(&[
        "0>1 publish 0",
        "0>1 check 0",
        "0>1 check 2",
        "1>0 publish 0",
        "1>0 check 0",
        "1>0 check 2",
        "1>0 published",
        "1>0 news 0",
        "0>1 published",
        "0>1 news 1",
        "1>0 pull seen 0",
        "0>1 batch 1 items upto 1 end",
    ]);
}

#[test]
fn who_missed_a_tombstone_pulls_compares_pulls_and_drops() {
    let mut world = World::pair();
    (0..200).for_each(|key| world.put(0, bucket(1), key));
    world.run(seconds(4));
    world.cut(0, 1);
    world.run(seconds(1));
    world.delete(0, bucket(1), 7);
    world.sites[0].store.forget_tombstones(bucket(1));
    world.heal(0, 1);
    world.said.clear();
    world.run(seconds(1));
    let feed = |line: &String| !line.contains("publish") && !line.contains("check");
    world.said.retain(feed);
    world.check(&[
        "1>0 news 200",
        "0>1 news 201",
        "1>0 pull seen 200",
        "0>1 batch 0 items upto 201 end behind",
        "1>0 compare 200 of 201",
        "0>1 differs 1",
        "1>0 probe 1 spans",
        "0>1 holds 13 children",
        "1>0 probe 1 spans",
        "0>1 holds 15 dots",
        "1>0 pull seen 201",
        "0>1 batch 0 items upto 0 end",
    ]);
    world.assert_converged(bucket(1), &[0, 1]);
}

#[test]
fn a_question_is_passed_on_and_answered_by_the_member() {
    let mut world = World::new(3, 1, millis(40));
    world.set_rtt(0, 2, millis(400));
    world.start();
    world.join(2, bucket(5));
    world.run(seconds(2));
    world.restart(0);
    world.run(millis(90));
    world.said.clear();
    world.input(0, Input::Locate { ticket: Ticket(1), bucket: bucket(5) });
    world.run(millis(100));
    assert!(world.said.starts_with(&["0>1 locate".into(), "1>2 pass on".into(), "1>0 passed on".into()]));
    world.run(millis(300));
    assert!(world.said.contains(&"2>0 member".into()), "{:?}", world.said);
}

#[test]
fn a_refusal_of_the_store_is_followed_by_a_pause_and_another_try() {
    let mut world = World::pair();
    world.put(0, bucket(1), 1);
    world.run(millis(21));
    world.put(0, bucket(1), 2);
    world.sites[1].store.refuse_next = true;
    world.run(seconds(3));
    assert_eq!(world.sites[1].machine.stats().applies_refused, 1);
    world.assert_converged(bucket(1), &[0, 1]);
}
