//! The same tests in the container tier, and where no other can be had.

#[path = "../scenarios.rs"]
mod scenarios;

use picktwo_tests::{run, scene::Scene};
use std::{path::Path, time::Duration};

#[test]
fn the_shipped_scenarios_hold_under_a_containers_filter() {
    let picktwo = Path::new(env!("CARGO_BIN_EXE_picktwo"));
    let scene = Scene::new(picktwo).unwrap();
    let filter = picktwo.with_file_name("examples").join("no_namespaces");
    let filter = scene.program(&filter, "hostile/no_namespaces").unwrap();
    let mut command = scene.command(filter);
    command
        .arg(scene.root().join("bin/picktwo"))
        .args(["scenario", "--json"]);
    let finished = run::run(command, Duration::from_secs(300)).unwrap();
    // Nobody asked for the tier: there is no other.
    scenarios::hold(&finished);
}
