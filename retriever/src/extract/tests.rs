use super::*;

fn url() -> Url {
    Url::parse("https://docs.example.org/guide/page").expect("a URL")
}

fn page(body: &str) -> Page {
    html(
        &format!("<html><head><title>T</title></head><body>{body}</body></html>"),
        &url(),
    )
    .expect("a small page")
}

fn all(page: &Page) -> String {
    page.blocks.iter().map(|b| format!("{}\n", b.text)).collect()
}

/// Ways to hide `MARK` in a page; `{}` is where a style sheet goes.
const METHODS: &[(&str, &str)] = &[
    ("display", "<p style='display:none'>MARK</p>"),
    (
        "display important",
        "<p style='color:red;DISPLAY: none !important'>MARK</p>",
    ),
    (
        "display by class",
        "<style>.zz{display:none}</style><p class='a zz'>MARK</p>",
    ),
    (
        "display by id in a group",
        "<style>@media screen{#zz > span{display:none}}</style><p id=zz><span>MARK</span></p>",
    ),
    ("display escaped", "<p style='d\\69splay:none'>MARK</p>"),
    (
        "display by variable",
        "<style>:root{--d:none}</style><p style='display:var(--d)'>MARK</p>",
    ),
    ("visibility", "<p style='visibility:hidden'><b>MARK</b></p>"),
    ("opacity", "<div style='opacity:.01'><p>MARK</p></div>"),
    (
        "opacity in steps",
        "<div style='opacity:.2'><p style='opacity:20%'>MARK</p></div>",
    ),
    ("font size 0", "<p style='font-size:0'>MARK</p>"),
    ("font size 1px", "<p style='font-size:1px'>MARK <em>MARK</em></p>"),
    ("font size em", "<p style='font-size:.01em'>MARK</p>"),
    ("font shorthand", "<p style='font:1px/1 serif'>MARK</p>"),
    (
        "colour on own background",
        "<p style='color:#336699;background:#336699'>MARK</p>",
    ),
    (
        "colour on background above",
        "<div style='background-color:black'><p style='color:rgb(3,3,3)'>MARK</p></div>",
    ),
    ("colour on the page", "<p style='color:white'>MARK</p>"),
    ("colour transparent", "<p style='color:transparent'>MARK</p>"),
    ("clip", "<p style='position:absolute;clip:rect(0,0,0,0)'>MARK</p>"),
    ("clip path", "<p style='clip-path: inset(100%)'>MARK</p>"),
    ("off screen", "<p style='position:absolute;left:-9999px'>MARK</p>"),
    ("off screen by margin", "<p style='margin-left:-9999px'>MARK</p>"),
    (
        "off screen by calc",
        "<p style='position:fixed;top:calc(-100vh - 600px)'>MARK</p>",
    ),
    ("indent", "<p style='text-indent:-9999px'>MARK</p>"),
    ("tiny box", "<div style='height:0;overflow:hidden'><p>MARK</p></div>"),
    (
        "one pixel",
        "<p style='width:1px;height:1px;overflow:hidden;position:absolute'>MARK</p>",
    ),
    ("scale", "<p style='transform:scale(0)'>MARK</p>"),
    ("hidden attribute", "<p hidden>MARK</p>"),
    ("hidden until found", "<p hidden=until-found>MARK</p>"),
    ("aria", "<p aria-hidden=true>MARK</p>"),
    ("template", "<template><p>MARK</p></template>"),
    ("noscript", "<noscript><p>MARK</p></noscript>"),
    ("comment", "<!-- MARK -->"),
    ("svg text", "<svg><text>MARK</text><title>MARK</title></svg>"),
    ("dialog", "<dialog><p>MARK</p></dialog>"),
    ("popover", "<div popover><p>MARK</p></div>"),
    ("screen reader class", "<span class='sr-only'>MARK</span>"),
    ("image description", "<img alt='MARK' src=x>"),
    ("title attribute", "<p title='MARK'>x</p>"),
    ("hidden input", "<input type=hidden value=MARK>"),
    ("text area", "<textarea>MARK</textarea>"),
    (
        "script data",
        "<script type='application/ld+json'>{\"articleBody\":\"MARK MARK MARK MARK\"}</script>",
    ),
    ("meta", "<meta name=description content='MARK MARK MARK'>"),
    ("iframe", "<iframe>MARK</iframe>"),
    ("content visibility", "<p style='content-visibility:hidden'>MARK</p>"),
];

/// Pages to hide something in.
fn bases() -> Vec<String> {
    let paragraph = "The configuration file is read once at start, and every key that is not known is refused with its line and column.";
    vec![
        format!(
            "<main><h1>Guide</h1><p>{paragraph}</p>@<p>VISIBLE {paragraph} Later keys win over earlier ones.</p></main>"
        ),
        format!(
            "<article><h1>Post</h1><p>{paragraph}</p><p>VISIBLE {paragraph} And more.</p>@</article><footer>Imprint</footer>"
        ),
        format!(
            "<div class=content><h2>Sub</h2><ul><li>{paragraph}</li><li>VISIBLE one of the items that stays</li></ul>@<p>{paragraph} End.</p></div>"
        ),
        "<p>VISIBLE short page.</p>@".to_owned(),
        format!(
            "<h1>Reference</h1><dl><dt>key</dt><dd>{paragraph}</dd><dt>other</dt><dd>VISIBLE second definition.@</dd></dl>"
        ),
        format!(
            "<nav><a href=/a>Start</a></nav><section><h2>Install</h2><p>{paragraph}</p><pre>tool --init\n</pre>@<p>VISIBLE then run it.</p></section>"
        ),
        format!(
            "<h1>Thread</h1><div class=post><b>ann</b><p>{paragraph}</p></div><div class=post><b>ben</b><p>VISIBLE I saw that, too.</p>@</div>"
        ),
        format!(
            "<h1>Lamp</h1><p>VISIBLE lamp for the desk.</p><table><tr><th>Power</th><th>Colour</th></tr><tr><td>9 W</td><td>warm</td></tr></table>@<p>{paragraph}</p>"
        ),
        format!(
            "<h1>All guides</h1><ul><li><a href=/1>First guide</a> {paragraph}</li><li><a href=/2>VISIBLE second guide</a></li></ul>@"
        ),
        format!(
            "<table role=presentation><tr><td><p>VISIBLE in a layout of tables.</p>@<p>{paragraph}</p></td></tr></table>"
        ),
        format!(
            "<h1>Questions</h1><details><summary>VISIBLE why?</summary><p>{paragraph}</p>@</details><blockquote><p>{paragraph}</p></blockquote>"
        ),
        format!(
            "<main><article><header><h1>説明</h1></header><p>設定ファイルは起動時に一度だけ読み込まれます。</p>@<p>VISIBLE {paragraph}</p></article></main><aside>Related</aside>"
        ),
    ]
}

#[test]
fn hidden_text_goes_and_visible_text_stays() {
    for base in bases() {
        for (method, hiding) in METHODS {
            let text = all(&page(&base.replace('@', hiding)));
            assert!(!text.contains("MARK"), "{method} in {base}: {text}");
            assert!(text.contains("VISIBLE"), "{method} in {base}: {text}");
        }
        let text = all(&page(&base.replace(
            '@',
            "<p style='color:#333;font-size:14px'>MARK is here to be read by all.</p>",
        )));
        assert!(text.contains("MARK"), "{base}: {text}");
    }
}

#[test]
fn a_page_whose_veil_has_many_layers_is_read() {
    let paragraph = "The configuration file is read once at start, and every key that is not known is refused.";
    let page = page(&format!(
        "<style>.box{{visibility:hidden}}</style><p>Menu</p><div class=box><div class=box><h1>Guide</h1></div>
         <div class=box><p>{paragraph}</p></div><div class=box><p>{paragraph} Again.</p></div><p style='display:none'>MARK</p></div>"
    ));
    let text = all(&page);
    assert!(text.contains("Guide") && text.contains("Again."), "{text}");
    assert!(!text.contains("MARK"), "{text}");
    assert!(page.flags.iter().any(|f| f.id == "veiled"));
}

#[test]
fn what_is_removed_is_counted_by_method() {
    let page = page("<p>Seen.</p><p style='display:none'>two words</p><p hidden>more</p><p aria-hidden=true>»</p>");
    let flag = page.flags.iter().find(|f| f.id == "hidden-text").expect("a flag");
    assert_eq!(flag.count, 2);
    assert!(
        flag.note.contains("12 characters (display 1, hidden attribute 1)"),
        "{}",
        flag.note
    );
}

#[test]
fn visible_text_is_not_taken_for_hidden() {
    for (why, shown) in [
        (
            "a stronger rule",
            "<style>.tab{display:none}.tab.active{display:block}</style><p class='tab active'>MARK</p>",
        ),
        (
            "an inline style",
            "<style>p{display:none}</style><p style='display:block'>MARK</p>",
        ),
        (
            "a child that is visible",
            "<div style='visibility:hidden'><p style='visibility:visible'>MARK</p></div>",
        ),
        (
            "a child of its own size",
            "<div style='font-size:0'><p style='font-size:16px'>MARK</p></div>",
        ),
        ("print only", "<style>@media print{p{display:none}}</style><p>MARK</p>"),
        (
            "narrow screens only",
            "<style>@media (max-width:600px){p{display:none}}</style><p>MARK</p>",
        ),
        ("a state", "<style>p:hover{opacity:0}</style><p>MARK</p>"),
        ("an unplaced offset", "<p style='left:-9999px'>MARK</p>"),
        (
            "an external sheet",
            "<link rel=stylesheet href=x><p style='color:white'>MARK</p>",
        ),
        (
            "a picture behind",
            "<div style='background:url(x)'><p style='color:white'>MARK</p></div>",
        ),
        ("overflow alone", "<p style='overflow:hidden;height:200px'>MARK</p>"),
        ("hidden overridden", "<p hidden style='display:block'>MARK</p>"),
    ] {
        let text = all(&page(&format!("<p>Some other text on the page.</p>{shown}")));
        assert!(text.contains("MARK"), "{why}: {text}");
    }
}

#[test]
fn closed_details_stay_and_are_marked() {
    let page = page(
        "<h1>Q</h1><details><summary>Question one</summary><p>The answer is here.</p></details><details open><p>Open text.</p></details>",
    );
    let collapsed: Vec<_> = page
        .blocks
        .iter()
        .filter(|b| b.collapsed)
        .map(|b| b.text.as_str())
        .collect();
    assert_eq!(collapsed, ["The answer is here."]);
    assert!(page.flags.iter().any(|f| f.id == "collapsed"));
}

#[test]
fn tabs_that_are_turned_over_stay_and_are_marked() {
    let page = page(
        "<h1>Install</h1><div role=tabpanel><p>On Linux, use the package.</p></div><div role=tabpanel hidden aria-hidden=true><p>On a Mac, use brew.</p></div>",
    );
    let collapsed: Vec<_> = page
        .blocks
        .iter()
        .filter(|b| b.collapsed)
        .map(|b| b.text.as_str())
        .collect();
    assert_eq!(collapsed, ["On a Mac, use brew."]);
}

#[test]
fn a_veil_over_the_whole_page_is_not_hiding() {
    let text = all(&html(
        "<html><style>body{opacity:0}html{visibility:hidden}</style><body><p>MARK is the page.</p></body></html>",
        &url(),
    )
    .expect("a page"));
    assert!(text.contains("MARK"), "{text}");
}

#[test]
fn what_buttons_and_animations_show_is_marked() {
    let page = page(
        "<p>A first paragraph of the page.</p><button aria-controls='a b'>More</button><div id=b style='display:none'>By a button.</div>
        <div style='opacity:0;transform:translate3d(0,20px,0)'>By scrolling.</div><div style='opacity:0'>By nothing.</div>",
    );
    let collapsed: Vec<_> = page
        .blocks
        .iter()
        .filter(|b| b.collapsed)
        .map(|b| b.text.as_str())
        .collect();
    assert_eq!(collapsed, ["By a button.", "By scrolling."]);
    assert!(!all(&page).contains("By nothing."));
}

#[test]
fn a_page_that_only_its_script_shows_is_read_and_flagged() {
    let text =
        "The text of the whole page, which its script is going to show once it has loaded everything. ".repeat(5);
    let page = page(&format!(
        "<p>Loading</p><div id=app style='visibility:hidden'><p>{text}</p><p style='display:none'>MARK</p></div>"
    ));
    assert!(all(&page).contains("The text of the whole page"));
    assert!(!all(&page).contains("MARK"));
    assert!(page.flags.iter().any(|f| f.id == "veiled"));
    let page = self::page(&format!(
        "<script>{text}{text}</script><noscript><p>{text}</p><p hidden>MARK</p></noscript>"
    ));
    assert!(all(&page).contains("The text of the whole page"));
    assert!(!all(&page).contains("MARK"));
}

#[test]
fn code_is_kept_byte_for_byte() {
    let samples = [
        "fn main() {\n    println!(\"a  b\");\n\n\n\tx &lt; y;   \n}\n",
        "<span class=k>let</span> <b>x</b>  = <i>1</i>;\n  <a href=/y>y</a>",
        "one line",
        "tabs\t\tand trailing  ",
    ];
    for sample in samples {
        let page = page(&format!(
            "<main><h1>Code</h1><p>Some text before the code of this page.</p><pre><code>{sample}</code></pre><p>Some text after it.</p></main>"
        ));
        let want = dom_query::Document::from(format!("<pre>{sample}</pre>"))
            .select("pre")
            .text()
            .to_string();
        let got: Vec<_> = page.blocks.iter().filter(|b| b.kind == BlockKind::Code).collect();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].text, want);
        assert!(got[0].main);
    }
}

#[test]
fn listings_with_line_numbers_lose_the_numbers() {
    let page = page(
        "<table><tr><td class=gutter><pre>1\n2\n</pre></td><td class=code><pre>a();\nb();\n</pre></td></tr></table>",
    );
    let code: Vec<_> = page.blocks.iter().map(|b| (b.kind, b.text.as_str())).collect();
    assert_eq!(code, [(BlockKind::Code, "a();\nb();\n")]);
}

#[test]
fn lines_that_are_boxes_become_lines() {
    let page = page("<pre><div>a</div><div>b</div></pre>");
    assert_eq!(page.blocks[0].text, "a\nb");
}

#[test]
fn tables_and_lists_keep_their_shape() {
    let page = page(
        "<table><caption>Flags</caption><tr><th>Flag<th>Does<tr><td><code>-v</code><td>tells <a href='/verbose'>more</a>|all</table>
        <ol start=3><li>three<ul><li>inner</li></ul></li><li><p>four</p><p>still four</p></li></ol>",
    );
    let got: Vec<_> = page.blocks.iter().map(|b| (b.kind, b.text.as_str())).collect();
    assert_eq!(
        got,
        [
            (BlockKind::Text, "Flags"),
            (BlockKind::Table, "Flag | Does\n--- | ---\n`-v` | tells more all"),
            (BlockKind::List, "3. three"),
            (BlockKind::List, "  - inner"),
            (BlockKind::List, "4. four"),
            (BlockKind::List, "  still four"),
        ]
    );
    let table = &page.blocks[1];
    let (at, link) = table.refs[0];
    assert!(table.text[..at].ends_with("more"));
    assert_eq!(page.links[link].url, "https://docs.example.org/verbose");
}

#[test]
fn links_are_numbered_once_and_only_to_the_web() {
    let page = page(
        "<p><a href='a'>one</a>, <a href='https://bücher.example/x#y'>two</a>, <a href='a#z'>three</a> <a href='javascript:x'>four</a> <a href='#f'>five</a> <a href='https://u:p@e.example/'>six</a></p>",
    );
    let urls: Vec<_> = page.links.iter().map(|l| l.url.as_str()).collect();
    assert_eq!(
        urls,
        ["https://docs.example.org/guide/a", "https://xn--bcher-kva.example/x"]
    );
    assert_eq!(page.blocks[0].refs, [(3, 0), (8, 1), (15, 0)]);
}

#[test]
fn navigation_is_not_content() {
    let paragraph = "A paragraph with enough words in it to be taken for the content of this page, and a second sentence to be sure of that.";
    let page = page(&format!(
        "<nav><ul><li><a href=/1>Home page link</a></li><li><a href=/2>Another page link</a></li></ul></nav>
         <main><h1>Heading of it</h1><p>{paragraph}</p><h2>Second part</h2><p>{paragraph}</p></main><footer><p>Copyright by somebody, all rights reserved</p></footer>"
    ));
    let main: Vec<_> = page.blocks.iter().filter(|b| b.main).map(|b| b.text.as_str()).collect();
    assert_eq!(main, ["Heading of it", paragraph, "Second part", paragraph]);
}

#[test]
fn pages_made_to_exhaust_are_refused_quickly() {
    let started = std::time::Instant::now();
    let deep = "<div>".repeat(200_000);
    assert_eq!(html(&deep, &url()).err(), Some(FetchError::TooLarge(Large::Nesting)));
    assert_eq!(
        html(&"<br>".repeat(500_000), &url()).err(),
        Some(FetchError::TooLarge(Large::Elements))
    );
    assert_eq!(
        html(&format!("{}x", "<b><i>".repeat(100_000)), &url()).err(),
        Some(FetchError::TooLarge(Large::Nesting))
    );
    let balanced = format!("{}<p>deep text</p>{}", "<div>".repeat(900), "</div>".repeat(900));
    assert!(all(&html(&balanced, &url()).expect("deep but bounded")).contains("deep text"));
    let script = format!("<script>{}</script><p>after</p>", "if(a<b)x;".repeat(5000));
    assert!(all(&html(&script, &url()).expect("no markup in scripts")).contains("after"));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
