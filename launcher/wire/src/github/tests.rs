use super::*;

fn file(repository: &str, path: &str, reference: &str) -> Github {
    Github {
        repository: Some(repository.to_owned()),
        path: Some(path.to_owned()),
        reference: Some(reference.to_owned()),
        ..Github::new(Op::File)
    }
}

#[test]
fn proper_arguments_pass() {
    for (repository, path, reference) in [
        ("rust-lang/rust", "src/lib.rs", "main"),
        ("a_b/x.y-z", "docs/a b/ü.md", "feature/x#1"),
        (
            "o/.github",
            ".github/workflows/ci.yml",
            "0123456789abcdef0123456789abcdef01234567",
        ),
    ] {
        assert_eq!(
            file(repository, path, reference).check(),
            Ok(()),
            "{repository} {path} {reference}"
        );
    }
}

#[test]
fn what_would_reach_another_place_is_refused() {
    for (repository, path, reference, why) in [
        ("rust", "a", "main", "owner/name"),
        ("o/n/issues", "a", "main", "owner/name"),
        ("../user", "a", "main", "owner/name"),
        ("o/..", "a", "main", "owner/name"),
        ("o/n?x=1", "a", "main", "owner/name"),
        ("o/n%2f", "a", "main", "owner/name"),
        ("", "a", "main", "owner/name"),
        ("o/n", "../../user", "main", "without"),
        ("o/n", "/etc/passwd", "main", "without"),
        ("o/n", "a//b", "main", "without"),
        ("o/n", "a\nb", "main", "without"),
        ("o/n", "", "main", "bytes"),
        ("o/n", "a", "main..x", "no name"),
        ("o/n", "a", "-x", "no name"),
        ("o/n", "a", "a b", "no name"),
        ("o/n", "a", "../x", "no name"),
        ("o/n", "a", "HEAD@{1}", "no name"),
        ("o/n", "a", "a?b", "no name"),
        ("o/n", "a", "", "bytes"),
    ] {
        let error = file(repository, path, reference).check().expect_err(repository);
        assert!(error.contains(why), "{repository} {path} {reference}: {error}");
    }
}

#[test]
fn each_operation_takes_its_own_arguments_only() {
    let full = |op| Github {
        repository: Some("o/n".to_owned()),
        reference: Some("main".to_owned()),
        base: Some("v1".to_owned()),
        path: Some("a".to_owned()),
        lines: Some((1, 2)),
        number: Some(1),
        query: Some("q".to_owned()),
        state: Some(Which::Open),
        page: Some(1),
        gist: Some("ab12".to_owned()),
        ..Github::new(op)
    };
    for op in Op::ALL {
        assert_eq!(Op::named(op.name()), Some(op));
        assert!(full(op).check().is_err(), "{op:?} takes everything");
        assert!(Github::new(op).check().is_err(), "{op:?} needs nothing");
        let text = serde_json::to_string(&full(op)).expect("JSON");
        assert!(text.contains(&format!("\"op\":\"{}\"", op.name())), "{text}");
    }
    for (change, why) in [
        ((|g| g.lines = Some((0, 1))) as fn(&mut Github), "lines"),
        (|g| g.lines = Some((3, 2)), "lines"),
        (|g| g.page = Some(1), "takes no page"),
        (|g| g.path = None, "needs path"),
    ] {
        let mut github = file("o/n", "a", "main");
        change(&mut github);
        let error = github.check().expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}
