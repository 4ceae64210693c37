//! Names of files: what programs see, what is durable, and the changes between the two, in order.
//!
//! File systems keep changes of names in order (they are journalled), so a loss of power leaves some prefix of
//! those that no [`Names::sync`] of their folder has made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

use skerry_scenario::draw::Draw;

/// A file, whatever it is called.
pub(crate) type FileId = u64;

/// One act on names, carried out as a whole.
#[derive(Debug, Clone)]
struct Change {
    /// The folders whose sync makes it durable.
    folders: [String; 2],
    /// (name, what it means afterwards)
    meanings: Vec<(String, Option<FileId>)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    current: BTreeMap<String, FileId>,
    durable: BTreeMap<String, FileId>,
    changes: Vec<Change>,
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The store's own directory may be called `.`.
fn plain(folder: &str) -> &str {
    if folder == "." { "" } else { folder }
}

fn carry_out(names: &mut BTreeMap<String, FileId>, change: &Change) {
    for (name, meaning) in &change.meanings {
        match meaning {
            Some(id) => names.insert(name.clone(), *id),
            None => names.remove(name),
        };
    }
}

impl Names {
    pub(crate) fn settled(names: BTreeMap<String, FileId>) -> Self {
        Self { current: names.clone(), durable: names, changes: Vec::new() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<FileId> {
        self.current.get(name).copied()
    }

    pub(crate) fn list(&self, folder: &str) -> Vec<String> {
        let inside = self.current.keys().filter(|name| folder_of(name) == plain(folder));
        inside.filter_map(|name| name.rsplit('/').next().map(Into::into)).collect()
    }

    fn change(&mut self, from: &str, to: &str, meanings: Vec<(String, Option<FileId>)>) {
        let folders = [folder_of(from).into(), folder_of(to).into()];
        let change = Change { folders, meanings };
        carry_out(&mut self.current, &change);
        self.changes.push(change);
    }

    pub(crate) fn create(&mut self, name: &str, id: FileId) {
        self.change(name, name, vec![(name.into(), Some(id))]);
    }

    pub(crate) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name).ok_or(ErrorKind::NotFound)?;
        self.change(name, name, vec![(name.into(), None)]);
        Ok(())
    }

    /// Of a file, or of a folder with all that is in it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inside = format!("{from}/");
        let mut change = Vec::new();
        for (name, id) in &self.current {
            let rest = if name == from { Some("") } else { name.strip_prefix(&inside) };
            if let Some(rest) = rest {
                let new = if rest.is_empty() { to.into() } else { format!("{to}/{rest}") };
                change.push((name.clone(), None));
                change.push((new, Some(*id)));
            }
        }
        if change.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        self.change(from, to, change);
        Ok(())
    }

    /// The changes of names in this folder become durable.
    pub(crate) fn sync(&mut self, folder: &str) {
        let touches = |change: &Change| change.folders.iter().any(|touched| touched == plain(folder));
        let (durable, left): (Vec<_>, _) = std::mem::take(&mut self.changes).into_iter().partition(touches);
        self.changes = left;
        durable.iter().for_each(|change| carry_out(&mut self.durable, change));
    }

    pub(crate) fn lose_power(&mut self, draw: &mut Draw) {
        let kept = draw.between(0..=self.changes.len() as u64) as usize;
        for change in std::mem::take(&mut self.changes).iter().take(kept) {
            carry_out(&mut self.durable, change);
        }
        self.current = self.durable.clone();
    }

    pub(crate) const fn durable(&self) -> &BTreeMap<String, FileId> {
        &self.durable
    }

    pub(crate) const fn current(&self) -> &BTreeMap<String, FileId> {
        &self.current
    }

    /// Files that some name means, now or after some loss of power.
    pub(crate) fn alive(&self) -> BTreeSet<FileId> {
        let pending =
            self.changes.iter().flat_map(|change| &change.meanings).filter_map(|(_, meaning)| *meaning);
        self.current.values().chain(self.durable.values()).copied().chain(pending).collect()
    }
}
