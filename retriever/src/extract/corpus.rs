//! Figures on a corpus of real pages. They run where `PICKTWO_DATA` names the folder with the corpora.

use super::*;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Sample {
    kind: String,
    url: Url,
    html: String,
    wanted: String,
    with: Vec<String>,
    without: Vec<String>,
}

fn samples() -> Option<Vec<Sample>> {
    let Some(folder) = std::env::var_os("PICKTWO_DATA") else {
        println!("not run: PICKTWO_DATA does not name the folder with the corpora");
        return None;
    };
    let folder = PathBuf::from(folder).join("extraction/wcxb");
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus")
        .map(|e| e.expect("an entry").path())
        .collect();
    names.retain(|p| p.extension().is_some_and(|e| e == "json"));
    names.sort();
    // Unoptimised, the extractor takes seconds a page.
    if cfg!(debug_assertions) {
        names = names.into_iter().step_by(16).collect();
    }
    let read = |json: PathBuf| {
        let truth: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a truth")).expect("JSON");
        let mut body = Vec::new();
        let packed = std::fs::File::open(json.with_extension("html.gz")).expect("its page");
        flate2::read::MultiGzDecoder::new(packed)
            .read_to_end(&mut body)
            .expect("gzip");
        let strings = |v: &serde_json::Value| {
            v.as_array()
                .map(|a| a.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect())
                .unwrap_or_default()
        };
        let ground = &truth["ground_truth"];
        Sample {
            kind: truth["_internal"]["page_type"]["primary"]
                .as_str()
                .unwrap_or("?")
                .to_owned(),
            url: Url::parse(truth["url"].as_str().unwrap_or(""))
                .unwrap_or_else(|_| Url::parse("https://a.example/").expect("a URL")),
            html: String::from_utf8_lossy(&body).into_owned(),
            wanted: ground["main_content"].as_str().unwrap_or("").to_owned(),
            with: strings(&ground["with"]),
            without: strings(&ground["without"]),
        }
    };
    Some(names.into_iter().map(read).collect())
}

fn bag(text: &str) -> HashMap<String, u32> {
    let mut bag = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        *bag.entry(word.to_lowercase()).or_default() += 1;
    }
    bag
}

/// Word-level precision, recall and F1.
fn f1(got: &str, wanted: &str) -> (f64, f64, f64) {
    let (got, wanted) = (bag(got), bag(wanted));
    let common: u32 = got
        .iter()
        .map(|(w, n)| (*n).min(wanted.get(w).copied().unwrap_or(0)))
        .sum();
    let (all_got, all_wanted) = (got.values().sum::<u32>(), wanted.values().sum::<u32>());
    if common == 0 {
        return (0.0, 0.0, f64::from(u8::from(all_got == 0 && all_wanted == 0)));
    }
    let (p, r) = (
        f64::from(common) / f64::from(all_got),
        f64::from(common) / f64::from(all_wanted),
    );
    (p, r, 2.0 * p * r / (p + r))
}

fn main_blocks(page: &Page) -> String {
    page.blocks
        .iter()
        .filter(|b| b.main)
        .map(|b| format!("{}\n", b.text))
        .collect()
}

#[derive(Default)]
struct Row {
    p: f64,
    r: f64,
    f1: f64,
    by_kind: BTreeMap<String, (f64, u32)>,
    with: (usize, usize),
    leak: (usize, usize),
    empty: usize,
    time: Duration,
}

fn flat(text: &str) -> String {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

fn measure(name: &str, samples: &[Sample], extract: impl Fn(&Sample) -> String) -> Row {
    let mut row = Row::default();
    for sample in samples {
        let started = Instant::now();
        let got = extract(sample);
        row.time += started.elapsed();
        let (p, r, f) = f1(&got, &sample.wanted);
        row.p += p;
        row.r += r;
        row.f1 += f;
        row.empty += usize::from(got.trim().is_empty());
        let entry = row.by_kind.entry(sample.kind.clone()).or_default();
        *entry = (entry.0 + f, entry.1 + 1);
        let text = flat(&got);
        row.with.0 += sample.with.iter().filter(|s| text.contains(&flat(s))).count();
        row.with.1 += sample.with.len();
        row.leak.0 += sample.without.iter().filter(|s| text.contains(&flat(s))).count();
        row.leak.1 += sample.without.len();
    }
    let n = samples.len() as f64;
    (row.p, row.r, row.f1) = (row.p / n, row.r / n, row.f1 / n);
    let kinds: Vec<String> = row
        .by_kind
        .iter()
        .map(|(k, (f, n))| format!("{k} {:.3}", f / f64::from(*n)))
        .collect();
    let size: usize = samples.iter().map(|s| s.html.len()).sum();
    println!(
        "{name:28} F1 {:.4}  P {:.3}  R {:.3}  with {:.3}  leak {:.3}  empty {}  {:.2} MB/s  {}",
        row.f1,
        row.p,
        row.r,
        row.with.0 as f64 / row.with.1.max(1) as f64,
        row.leak.0 as f64 / row.leak.1.max(1) as f64,
        row.empty,
        size as f64 / 1e6 / row.time.as_secs_f64(),
        kinds.join("  ")
    );
    row
}

#[test]
fn content_of_real_pages() {
    let Some(samples) = samples() else { return };
    println!("{} pages", samples.len());
    let read = |s: &Sample, pass| {
        html_with(&s.html, &s.url, pass)
            .map(|p| main_blocks(&p))
            .unwrap_or_default()
    };
    let bare = measure("extractor's own text", &samples, |s| main_text(&s.html, &s.url));
    let off = measure("blocks, hidden text left", &samples, |s| read(s, false));
    let on = measure("blocks, hidden text removed", &samples, |s| read(s, true));
    if let Some(only) = std::env::var_os("PICKTWO_WORST") {
        let n: usize = only.to_string_lossy().parse().unwrap_or(20);
        let mut gaps: Vec<_> = samples
            .iter()
            .map(|s| {
                let flags = html(&s.html, &s.url).map(|p| p.flags.iter().map(|f| f.note.clone()).collect::<Vec<_>>());
                (
                    f1(&read(s, true), &s.wanted).2 - f1(&read(s, false), &s.wanted).2,
                    s.kind.as_str(),
                    s.url.as_str(),
                    flags,
                )
            })
            .collect();
        gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
        gaps.iter().take(n).for_each(|g| println!("{g:?}"));
    }
    for s in &samples {
        let emptied = read(s, true).trim().is_empty() && !read(s, false).trim().is_empty();
        assert!(!emptied, "nothing is left of {}", s.url);
    }
    if cfg!(debug_assertions) {
        return;
    }
    assert!(on.f1 >= 0.83, "F1 {}", on.f1);
    assert!(
        on.f1 >= off.f1 - 0.005,
        "the pass over hidden text costs {}",
        off.f1 - on.f1
    );
    assert!(on.f1 >= bare.f1 - 0.01, "choosing blocks costs {}", bare.f1 - on.f1);
}

#[test]
fn code_of_real_pages_is_byte_identical() {
    let Some(samples) = samples() else { return };
    let (mut all, mut kept, mut inside) = (0, 0, 0);
    for sample in &samples {
        let Ok(page) = html(&sample.html, &sample.url) else {
            continue;
        };
        let document = dom_query::Document::from(sample.html.as_str());
        let code: Vec<&Block> = page.blocks.iter().filter(|b| b.kind == BlockKind::Code).collect();
        for pre in document.select("pre").nodes() {
            let text = pre.text();
            // Shown code only: hidden copies, boxes as lines, and buttons are other tests' business.
            let numbers = text.split_whitespace().all(|w| w.bytes().all(|b| b.is_ascii_digit()));
            if text.trim().is_empty()
                || numbers
                || pre
                    .descendants_it()
                    .any(|n| n.has_name("br") || n.has_name("button") || n.has_name("div"))
            {
                continue;
            }
            all += 1;
            let found: Vec<_> = code.iter().filter(|b| b.text == *text).collect();
            if found.is_empty() && std::env::var_os("PICKTWO_WORST").is_some() {
                println!("{} {:?}", sample.url, text.chars().take(60).collect::<String>());
            }
            kept += usize::from(!found.is_empty());
            inside += usize::from(found.iter().any(|b| b.main));
        }
    }
    println!("{all} pieces of code: {kept} byte-identical, {inside} of them in the content");
    assert!(kept as f64 >= 0.95 * f64::from(all), "{kept} of {all}");
}
