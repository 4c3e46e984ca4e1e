//! `picktwo verify`.
use std::process::ExitCode;
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) fn main(_args: Args) -> ExitCode { ExitCode::from(125) }
