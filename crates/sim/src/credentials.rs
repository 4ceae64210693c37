//! Credential keys: who has which of them while sites are expelled on islands, burn, and are set back to older key files.
//!
//! The production rules ([`CredentialKeys`]) at every site; documents travel as feeds do (of each origin in order, of several in
//! any), bytes of keys only by asking. A site that was expelled lives on, talks to whoever has not heard, and does harm there: it
//! deletes documents, and makes keys of which it says that it does not have them. `secret`: whoever was gone, as far as the maker of an access key had heard, never has the key that it is sealed with.
//! `opens`: once healed and quiet every site that was never expelled opens every access key whose credential key any of them
//! has, or that was lost without a disk. `settled`: then all seal with one key, and nobody makes another.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{CredentialKeyId, SiteId, WallTime};
use skerry_model::bucket::{CredentialDocument, CredentialKeys, Sealer};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;

/// What happens before everything is healed.
const STEPS: usize = 300;
/// Never expelled are so many at least.
const STAY: usize = 2;
/// Keys that a site makes for one secret at most: another site may go meanwhile.
const MADE: usize = 2;

/// A mistake that a checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The federation's first key goes on sealing.
    FirstSeals,
    /// The latest key seals, whoever is gone since.
    LatestSeals,
    /// A key is made for each secret.
    EachMakes,
    /// Whoever is linked is told any key.
    ToldToAll,
    /// Only the maker of a key is asked for it.
    MakerIsAsked,
    /// A key is announced before its file is synced.
    AnnouncedUnsynced,
    /// Who made a key is taken at its word.
    Unsigned,
    /// Who copies the hash of a key says something else of it.
    Copied,
    /// Nobody looks for a key that another one has after its file was set back.
    HadOnce,
    /// A document that somebody deleted is not said again by who has the key.
    NotSaidAgain,
}

/// What a record says.
#[derive(Debug, Clone)]
enum Said {
    Expelled(usize),
    /// A document, or that it is deleted, said for the so-many-th time.
    Key(u64, CredentialDocument),
    Deleted(u64, CredentialKeyId),
    Access {
        number: usize,
    },
}

/// A site in one life of its disk.
type Origin = (usize, u64);

/// An access key as it was made.
#[derive(Debug)]
struct Access {
    sealer: Sealer,
    /// Who was gone, as far as its maker had heard; nobody if he was himself.
    gone: BTreeSet<SiteId>,
}

/// Keys with what their makers said.
type File = BTreeMap<CredentialKeyId, CredentialDocument>;

#[derive(Debug, Default, Clone)]
struct Site {
    life: u64,
    /// Of each origin so many of its records are here.
    heard: BTreeMap<Origin, usize>,
    gone: BTreeSet<usize>,
    keys: File,
    /// How often something was said of a key.
    times: BTreeMap<CredentialKeyId, u64>,
    access: BTreeSet<usize>,
    /// The key file, and an older copy of it.
    file: File,
    backup: File,
    /// What it ever had.
    had: BTreeSet<CredentialKeyId>,
    /// The same, by hashes of the bytes.
    bytes: BTreeSet<[u8; 32]>,
}

struct World {
    draw: Draw,
    mistake: Option<Mistake>,
    sites: Vec<Site>,
    records: BTreeMap<Origin, Vec<Said>>,
    access: Vec<Access>,
    expelled: BTreeSet<usize>,
    cuts: BTreeSet<(usize, usize)>,
    /// Keys that went with a disk, or with an older file that was put back.
    lost: BTreeSet<CredentialKeyId>,
    made: u64,
    /// Hashes of the bytes of all keys.
    bytes: BTreeMap<CredentialKeyId, [u8; 32]>,
    outcome: Outcome,
}

/// Runs a seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut draw = Draw::from_seed(seed).fork("credentials");
    let sites = vec![Site::default(); draw.between(3..=7) as usize];
    let mut world = World {
        draw,
        mistake,
        sites,
        records: BTreeMap::new(),
        access: Vec::new(),
        expelled: BTreeSet::new(),
        cuts: BTreeSet::new(),
        lost: BTreeSet::new(),
        made: 0,
        bytes: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    for _ in 0..STEPS {
        world.step();
        world.check_secret();
        if !world.outcome.violations.is_empty() {
            return world.outcome;
        }
    }
    world.rest();
    world.outcome
}

fn id(site: usize) -> SiteId {
    SiteId([u8::try_from(site).unwrap_or(u8::MAX); 16])
}

impl World {
    fn any(&mut self) -> usize {
        self.draw.below(self.sites.len() as u64) as usize
    }

    fn step(&mut self) {
        let (one, other) = (self.any(), self.any());
        match self.draw.weighted(&[2, 8, 40, 30, 10, 4, 4, 1, 1, 1]) {
            0 => self.expel(one, other),
            1 => self.make_access(one),
            2 => self.feed(one, other, true),
            3 => self.ask(one),
            4 => self.say_again(one),
            5 if one != other => drop(self.cuts.insert((one.min(other), one.max(other)))),
            6 => drop(self.cuts.remove(&(one.min(other), one.max(other)))),
            7 => self.burn(one),
            8 => self.set_back(one),
            9 => self.harm(one),
            _ => {}
        }
    }

    fn write(&mut self, site: usize, said: Said) {
        let origin = (site, self.sites[site].life);
        self.records.entry(origin).or_default().push(said.clone());
        *self.sites[site].heard.entry(origin).or_default() += 1;
        self.sites[site].hear(said);
    }

    fn expel(&mut self, at: usize, whom: usize) {
        let may = at != whom && self.sites.len() - self.expelled.len() > STAY;
        if may && self.sites[at].gone.insert(whom) {
            self.expelled.insert(whom);
            self.write(at, Said::Expelled(whom));
            self.outcome.count("expelled");
            self.sealer(at);
        }
    }

    /// What a site seals with; it makes a key if it has to. None if the process died meanwhile.
    fn sealer(&mut self, at: usize) -> Option<Sealer> {
        let gone = self.sites[at].gone_ids();
        if gone.contains(&id(at)) {
            self.outcome.count("sealed by one that knows that it is gone");
            return Some(Sealer::First);
        }
        if self.mistake == Some(Mistake::EachMakes) {
            self.make_key(at, &gone)?;
        }
        for _ in 0..MADE {
            let site = &self.sites[at];
            let here = |key| site.file.contains_key(&key);
            let sealer = match self.mistake {
                Some(Mistake::FirstSeals) => Some(Sealer::First),
                Some(Mistake::LatestSeals) if !site.file.is_empty() => {
                    let latest = site.file.values().max_by_key(|said| said.made);
                    latest.map(|said| Sealer::Later(said.id()))
                }
                _ => site.known().sealer(here, &gone),
            };
            if sealer.is_some() {
                return sealer;
            }
            self.make_key(at, &gone)?;
        }
        self.outcome.violations.push(("settled", format!("site {at} makes key after key")));
        None
    }

    fn make_key(&mut self, at: usize, gone: &BTreeSet<SiteId>) -> Option<()> {
        let mut key = [0; 32];
        key.copy_from_slice(&self.draw.bytes(32));
        self.made += 1;
        self.outcome.count("keys made");
        // Clocks are wrong.
        let wall = WallTime(self.draw.below(1000));
        let latest = self.sites[at].file.values().map(|said| said.made).max();
        let said = CredentialDocument::of(&key, gone, (wall, id(at)), latest);
        self.bytes.insert(said.id(), said.bytes);
        self.sites[at].keep(said.clone());
        if self.draw.chance(Ppm::fraction(0.1)) {
            self.outcome.count("died before a key was announced");
            return None;
        }
        self.say(at, said);
        Some(())
    }

    fn make_access(&mut self, at: usize) {
        let before = self.made;
        let Some(sealer) = self.sealer(at) else { return };
        if sealer != Sealer::First {
            self.outcome.count("sealed with a later key");
        }
        let knows = self.sites[at].gone.contains(&at);
        let gone = if knows { BTreeSet::new() } else { self.sites[at].gone_ids() };
        self.access.push(Access { sealer, gone });
        // Where nobody has heard of it, it is said again before anything is sealed with it.
        self.say_again(at);
        self.write(at, Said::Access { number: self.access.len() - 1 });
        let fails = self.draw.chance(Ppm::fraction(0.1));
        if let Sealer::Later(key) = sealer
            && fails
            && self.made > before
            && self.mistake == Some(Mistake::AnnouncedUnsynced)
        {
            // The power does, right after the answer.
            self.sites[at].file.remove(&key);
        }
    }

    /// A site says again what the records lack of keys that it has.
    fn say_again(&mut self, site: usize) {
        if self.mistake == Some(Mistake::NotSaidAgain) {
            return;
        }
        let Site { file, keys, .. } = &self.sites[site];
        let lacks = |(key, said): (&CredentialKeyId, &CredentialDocument)| {
            (!keys.contains_key(key)).then(|| said.clone())
        };
        let unsaid: Vec<_> = file.iter().filter_map(lacks).collect();
        for said in unsaid {
            self.outcome.count("said again");
            self.say(site, said);
        }
    }

    fn say(&mut self, site: usize, said: CredentialDocument) {
        let times = self.sites[site].times_of(said.id()) + 1;
        self.write(site, Said::Key(times, said));
    }

    /// Whoever was expelled deletes a document, or makes a key and says that it is kept from itself.
    fn harm(&mut self, site: usize) {
        if !self.expelled.contains(&site) {
            return;
        }
        let keys: Vec<_> = self.sites[site].keys.keys().copied().collect();
        if let Some(key) = self.draw.pick(&keys).copied().filter(|_| site.is_multiple_of(2)) {
            self.outcome.count("deleted");
            let times = self.sites[site].times_of(key) + 1;
            return self.write(site, Said::Deleted(times, key));
        }
        if let Some(key) = self.draw.pick(&keys).copied().filter(|_| self.draw.chance(Ppm::fraction(0.5))) {
            let said = self.sites[site].keys[&key].clone();
            let (kept_from, made) = (BTreeSet::new(), WallTime(u64::MAX));
            self.outcome.count("copied");
            return self.say(site, CredentialDocument { kept_from, made, at: id(site), ..said });
        }
        let gone = self.expelled.iter().map(|gone| id(*gone)).collect();
        let (mut key, now) = ([0; 32], WallTime(u64::MAX));
        key.copy_from_slice(&self.draw.bytes(32));
        // It cannot sign in the name of another.
        let maker = if self.mistake == Some(Mistake::Unsigned) { usize::MAX } else { site };
        let mut said = CredentialDocument::of(&key, &gone, (now, id(maker)), None);
        said.kept_from.insert(id(site));
        self.bytes.insert(said.id(), said.bytes);
        self.sites[site].keep(said.clone());
        self.outcome.count("made by one that is gone");
        self.say(site, said);
    }

    /// A link stands unless one has heard that the other belongs no more.
    fn linked(&self, one: usize, other: usize) -> bool {
        let knows = |at: usize, of: usize| self.sites[at].gone.contains(&of);
        let cut = self.cuts.contains(&(one.min(other), one.max(other)));
        one != other && !cut && !knows(one, other) && !knows(other, one)
    }

    /// Some of what another has and this one lacks, or all of it.
    fn feed(&mut self, to: usize, from: usize, some: bool) {
        // What is on its way when somebody hears arrives all the same.
        let arrives = some && self.draw.chance(Ppm::fraction(0.02));
        if !arrives && !self.linked(to, from) {
            return;
        }
        for (origin, upto) in self.sites[from].heard.clone() {
            let begin = self.sites[to].heard.get(&origin).copied().unwrap_or_default();
            let most = upto.saturating_sub(begin);
            let end = begin + if some { self.draw.between(0..=most as u64) as usize } else { most };
            for said in self.records[&origin][begin..end].iter().cloned() {
                self.sites[to].hear(said);
            }
            if end > begin {
                self.sites[to].heard.insert(origin, end);
                self.outcome.count("fed");
            }
        }
    }

    /// A site asks those that it is linked with for keys that it has heard of.
    fn ask(&mut self, site: usize) {
        let asks = &self.sites[site];
        let once = self.mistake == Some(Mistake::HadOnce);
        let is_here = |key: &CredentialKeyId| asks.file.contains_key(key) || once && asks.had.contains(key);
        let missing: Vec<_> = asks.keys.iter().filter(|(key, _)| !is_here(key)).collect();
        let missing: Vec<_> = missing.into_iter().map(|(key, said)| (*key, said.clone())).collect();
        for (key, said) in missing {
            let tells = (0..self.sites.len()).find(|other| self.tells(*other, key, site));
            match tells {
                Some(other) => {
                    self.outcome.count("told");
                    let told = self.sites[other].file[&key].clone();
                    // Those said last are the first that it may be of.
                    let copied = self.sites[site].keys.values().filter(|known| known.bytes == told.bytes);
                    let copied = copied.max_by_key(|known| known.made).cloned();
                    let copied = copied.filter(|_| self.mistake == Some(Mistake::Copied));
                    self.sites[site].keep(copied.unwrap_or(said));
                }
                None => self.outcome.count("told by nobody yet"),
            }
        }
    }

    fn tells(&mut self, other: usize, key: CredentialKeyId, asker: usize) -> bool {
        let has = self.linked(other, asker) && self.sites[other].file.contains_key(&key);
        let may = self.sites[other].known().may_tell(key, id(asker));
        if has && !may {
            self.outcome.count("refused");
        }
        let made_it = || self.sites[other].file.get(&key).is_some_and(|said| said.at == id(other));
        match self.mistake {
            Some(Mistake::ToldToAll) => has,
            Some(Mistake::MakerIsAsked) => has && may && made_it(),
            _ => has && may,
        }
    }

    /// All of a disk is gone; the site begins anew with what its invitation gave it.
    fn burn(&mut self, site: usize) {
        let before = std::mem::take(&mut self.sites[site]);
        self.sites[site].life = before.life + 1;
        self.outcome.count("burnt");
        self.lost.extend(before.file.keys());
    }

    /// A backup of the key file is put back, or made.
    fn set_back(&mut self, site: usize) {
        let file = self.sites[site].file.clone();
        let backup = std::mem::replace(&mut self.sites[site].backup, file.clone());
        if backup != file {
            self.lost.extend(file.keys().filter(|key| !backup.contains_key(key)));
            self.sites[site].file = backup;
            self.outcome.count("set back");
        }
    }

    fn check_secret(&mut self) {
        for (number, access) in self.access.iter().enumerate() {
            for gone in 0..self.sites.len() {
                let opens = match access.sealer {
                    Sealer::First => true,
                    Sealer::Later(key) => {
                        self.bytes.get(&key).is_some_and(|bytes| self.sites[gone].bytes.contains(bytes))
                    }
                };
                if access.gone.contains(&id(gone)) && opens {
                    let what =
                        format!("site {gone} was gone when access key {number} was made, and opens it");
                    self.outcome.violations.push(("secret", what));
                    return;
                }
            }
        }
    }

    /// Heals all links, lets everything arrive, and judges.
    fn rest(&mut self) {
        self.cuts.clear();
        self.exchange();
        let stay: Vec<usize> = (0..self.sites.len()).filter(|site| !self.expelled.contains(site)).collect();
        let files: BTreeSet<_> =
            stay.iter().flat_map(|site| self.sites[*site].file.keys().copied()).collect();
        for site in &stay {
            for number in self.sites[*site].access.clone() {
                let Sealer::Later(key) = self.access[number].sealer else { continue };
                // Else it went with a disk, or whoever was expelled made it and told nobody who stays.
                let is_owed = files.contains(&key) || !self.lost.contains(&key) && !self.had_by_gone(key);
                if is_owed && !self.sites[*site].file.contains_key(&key) {
                    let what = format!("site {site} does not open access key {number}, sealed with {key}");
                    self.outcome.violations.push(("opens", what));
                    return;
                }
                self.outcome.count("opened in the end");
            }
        }
        self.check_settled(&stay);
    }

    fn had_by_gone(&self, key: CredentialKeyId) -> bool {
        self.expelled.iter().any(|gone| self.sites[*gone].file.contains_key(&key))
    }

    fn exchange(&mut self) {
        for _ in 0..self.sites.len() {
            for one in 0..self.sites.len() {
                (0..self.sites.len()).for_each(|other| self.feed(one, other, false));
            }
            for site in 0..self.sites.len() {
                self.ask(site);
                self.say_again(site);
            }
        }
    }

    fn check_settled(&mut self, stay: &[usize]) {
        for site in stay {
            // Whoever finds none makes one, or dies over it and makes it the next time.
            while self.sealer(*site).is_none() && self.outcome.violations.is_empty() {}
            self.exchange();
        }
        let (made, mut sealers) = (self.made, BTreeSet::new());
        for site in stay {
            sealers.extend(self.sealer(*site));
        }
        if sealers.len() != 1 || self.made != made {
            let what = format!("{} keys made once quiet, {sealers:?}", self.made - made);
            self.outcome.violations.push(("settled", what));
        }
    }
}

impl Site {
    fn hear(&mut self, said: Said) {
        match said {
            Said::Expelled(whom) => drop(self.gone.insert(whom)),
            Said::Key(times, said) => {
                if times >= self.times_of(said.id()) {
                    self.times.insert(said.id(), times);
                    self.keys.insert(said.id(), said);
                }
            }
            Said::Deleted(times, key) => {
                if times > self.times_of(key) {
                    self.times.insert(key, times);
                    self.keys.remove(&key);
                }
            }
            Said::Access { number } => drop(self.access.insert(number)),
        }
    }

    fn times_of(&self, key: CredentialKeyId) -> u64 {
        self.times.get(&key).copied().unwrap_or_default()
    }

    fn keep(&mut self, said: CredentialDocument) {
        self.had.insert(said.id());
        self.bytes.insert(said.bytes);
        self.file.insert(said.id(), said);
    }

    /// What records say, and what lies beside the keys.
    fn known(&self) -> CredentialKeys {
        let mut known = CredentialKeys::default();
        self.keys.values().chain(self.file.values()).for_each(|said| known.hear(said.clone()));
        known
    }

    fn gone_ids(&self) -> BTreeSet<SiteId> {
        self.gone.iter().map(|site| id(*site)).collect()
    }
}
