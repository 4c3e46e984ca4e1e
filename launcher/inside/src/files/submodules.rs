//! Where a submodule's files lie: its configuration says so, and git writes there whatever is checked out.

use super::{Grants, Place};
use picktwo_policies::gitconfig;
use picktwo_policies::protect::Kind;

impl Grants {
    /// Whether the directory that a submodule's configuration newly names holds the gitfile that leads back to it, as git writes it first,
    /// and is reached through no symbolic link.
    pub(super) fn leads_back(&self, place: &Place, present: &[u8], content: &[u8]) -> Result<(), String> {
        let names = place.names();
        let directory = &names[..names.len().saturating_sub(1)];
        let Some(target) = gitconfig::submodule_worktree(content, directory) else {
            return Ok(());
        };
        if gitconfig::submodule_worktree(present, directory).as_ref() == Some(&target) {
            return Ok(());
        }
        let parts: Vec<&[u8]> = target.iter().map(Vec::as_slice).collect();
        let protected = self.guard.protected().check(&parts);
        if protected.is_some_and(|rule| rule.kind == Kind::Refuse) {
            return Err("core.worktree: names a protected place".to_owned());
        }
        let gitfile = Place {
            root: place.root,
            rel: [parts.join(&b'/'), b"/.git".to_vec()].concat(),
            slash: false,
            exact: true,
        };
        let root = &self.roots[place.root].path;
        match self.read_place(&gitfile) {
            Ok(text) if gitconfig::gitfile_names(&text, root, &parts, directory) => Ok(()),
            _ => Err("core.worktree: names a directory whose gitfile does not lead back here".to_owned()),
        }
    }
}
