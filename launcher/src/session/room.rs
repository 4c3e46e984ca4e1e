//! Room on the disks that a session can fill: its private home, and in edit mode the workspace. No quota can be set there without the
//! machine's root, so they are watched, and a session that has filled one is ended.

use super::plan::Plan;
use super::prepare;
use super::start::StartError;
use super::tier::Tier;
use crate::record::{Event, Record};
use nix::sys::signal::Signal;
use nix::sys::statvfs::fstatvfs;
use picktwo_confine::{process, sys};
use picktwo_inside::container::Place as Temporary;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// What a fast disk may take in a millisecond, in bytes: how long nobody has to look.
const PER_MILLISECOND: u64 = 4 << 20;
/// Bounds of the time between two looks, in milliseconds.
const PAUSE: (u64, u64) = (20, 5000);

/// The file systems of a session.
pub(super) struct Room {
    places: Vec<Place>,
}

struct Place {
    path: PathBuf,
    dir: OwnedFd,
    /// Bytes that stay free.
    keep: u64,
}

impl Room {
    /// Looks how much is free; at 100 percent nothing is watched. Where less than the policy wants is free already, half of it may still be used.
    ///
    /// # Errors
    /// A directory that cannot be opened.
    pub(super) fn new(plan: &Plan, id: &str) -> Result<Self, StartError> {
        let part = 100 - plan.policy.limits.disk_percent.value;
        let mut places = Vec::new();
        if part == 0 {
            return Ok(Self { places });
        }
        // Without a view the session's temporary directory is on a disk, too.
        let temporary = (plan.tier.tier == Tier::Container).then(|| Temporary::of(id));
        let own = std::iter::once(plan.private_home.clone()).chain(temporary);
        for path in own.chain(plan.roots.iter().cloned()) {
            let dir = prepare::open_directory(&path)?;
            if let Some((free, all)) = look(&dir) {
                let wanted = all / 100 * part;
                places.push(Place {
                    path,
                    dir,
                    keep: if free > wanted { wanted } else { free / 2 },
                });
            }
        }
        Ok(Self { places })
    }

    /// Watches until the command has ended, and ends it where there is no room left.
    pub(super) fn watch(&self, command: &OwnedFd, record: &Record) {
        loop {
            let rooms = self.places.iter().filter_map(|place| {
                let (free, _) = look(&place.dir)?;
                Some((free.saturating_sub(place.keep), place))
            });
            let Some((room, place)) = rooms.min_by_key(|(room, _)| *room) else {
                return;
            };
            if room == 0 {
                let path = place.path.display().to_string();
                // First of all, and whatever becomes of the words about it: the person's terminal may take none.
                let _ = sys::pidfd_signal(command.as_fd(), Signal::SIGKILL as i32);
                // What it goes on to write is what there is no room for.
                let _ = record.append(&Event::Full { path: path.clone() });
                crate::cli::output::say(&format!(
                    "the session is ended: hardly any room is left on the file system of {path} (`limits.disk_percent`)"
                ));
                return;
            }
            let pause = (room / PER_MILLISECOND).clamp(PAUSE.0, PAUSE.1);
            if process::ended(command.as_fd(), i32::try_from(pause).unwrap_or(i32::MAX)) != Ok(false) {
                return;
            }
        }
    }
}

/// Bytes that are free for whom this process runs as, and all that it could ever have. `None`: the file system does not say.
fn look(dir: &OwnedFd) -> Option<(u64, u64)> {
    let now = fstatvfs(dir).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(now.fragment_size());
    let all = now.blocks().saturating_sub(now.blocks_free()) + now.blocks_available();
    (all > 0).then(|| (bytes(now.blocks_available()), bytes(all)))
}
