use super::*;

fn rules(css: &str) -> Vec<(String, String)> {
    let mut rules = Vec::new();
    sheet(css, &mut rules);
    rules
        .iter()
        .map(|r| {
            (
                r.selector.clone(),
                r.declarations
                    .iter()
                    .map(|d| format!("{}={}", d.property, d.value))
                    .collect::<Vec<_>>()
                    .join(","),
            )
        })
        .collect()
}

#[test]
fn sheets_are_read_with_their_groups() {
    let css = "@charset 'x'; /* .c{display:none} */ .a , #b > i { display : NONE !important; margin: 0; float:left }
        @media print { .p { display:none } } @media (max-width: 600px) { .m { display:none } }
        @media screen and (min-width: 40em) { .w { visibility:hidden } .w2 { opacity:0 } }
        @keyframes x { from { opacity: 0 } } .s::before, .t:hover { display:none } .q { content: '}'; opacity: 0.5 }
        @supports (display:grid) { .g { left: -9999px } } .z{color:red";
    let got = rules(css);
    let selectors: Vec<_> = got.iter().map(|(s, _)| s.as_str()).collect();
    assert_eq!(selectors, [".a", "#b > i", ".w", ".w2", ".q", ".g", ".z"]);
    assert_eq!(got[0].1, "display=none,margin=0");
    assert_eq!(got[4].1, "opacity=0.5");
}

#[test]
fn escapes_and_comments_do_not_hide_a_declaration() {
    for text in [
        "d\\69splay:none",
        "dis\\70 lay: n\\6f ne",
        "color:red;/**/display:/*x*/none",
        "DISPLAY:None;",
    ] {
        assert!(
            declarations(text)
                .iter()
                .any(|d| d.property == "display" && d.value == "none"),
            "{text}"
        );
    }
}

#[test]
fn keys_and_weights_of_selectors() {
    assert_eq!(subject_key("div .a.b"), Some(".a".to_owned()));
    assert_eq!(subject_key("a > P:not(.x)"), Some("p".to_owned()));
    assert_eq!(subject_key("p#i.c"), Some("#i".to_owned()));
    assert_eq!(subject_key("[hidden]"), None);
    assert_eq!(subject_key(".md\\:x"), None);
    assert_eq!(specificity("ul li.a #b[x]"), (1, 2, 2));
}

#[test]
fn lengths_become_pixels() {
    for (value, px) in [
        ("0", 0.0),
        ("1.5em", 15.0),
        ("-9999px", -9999.0),
        ("3pt", 4.0),
        ("-1e3px", -1000.0),
        ("1rem", 16.0),
    ] {
        assert_eq!(length(value, 10.0), Some(px), "{value}");
    }
    assert_eq!(length("auto", 10.0), None);
    assert_eq!(length("7", 10.0), None);
    for value in [
        "-9999px",
        "calc(100% - 9999px)",
        "calc(-1 * 1px + -600px)",
        "translatex(-5000px)",
    ] {
        assert!(far_negative(value, 16.0, 500.0), "{value}");
    }
    for value in ["-10px", "calc(100% - 20px)", "9999px", "auto"] {
        assert!(!far_negative(value, 16.0, 500.0), "{value}");
    }
}
