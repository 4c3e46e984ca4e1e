//! The same tests without namespaces: processes below a Landlock domain in place of a view.
//! Sockets are left out: what makes them there is the broker, which has tests of its own.

#[path = "../grants/completing.rs"]
mod completing;
#[path = "../grants/git.rs"]
mod git;
#[path = "../grants/harness.rs"]
mod harness;
#[path = "../grants/identity.rs"]
mod identity;
#[path = "../grants/links.rs"]
mod links;
#[path = "../grants/metadata.rs"]
mod metadata;
#[path = "../grants/moves.rs"]
mod moves;
#[path = "../grants/names.rs"]
mod names;
#[path = "../grants/opens.rs"]
mod opens;
#[path = "../grants/protected.rs"]
mod protected;
#[path = "../grants/publishing.rs"]
mod publishing;
#[path = "../grants/races.rs"]
mod races;
#[path = "../grants/tools.rs"]
mod tools;
#[path = "../grants/writers.rs"]
mod writers;
