//! Figures on questions over articles. They run where `PICKTWO_DATA` names the folder with the corpora.

use super::*;
use std::path::PathBuf;

/// How many of the answers to the corpus's questions are left in `words` words, out of eight articles at once.
fn retained(words: usize) -> Option<(usize, usize)> {
    let Some(folder) = std::env::var_os("PICKTWO_DATA") else {
        println!("not run: PICKTWO_DATA does not name the folder with the corpora");
        return None;
    };
    let file = std::fs::read(PathBuf::from(folder).join("qa/xquad.en.json")).expect("the corpus");
    let corpus: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    let articles = corpus["data"].as_array().expect("articles");
    let (mut kept, mut all) = (0, 0);
    for group in articles.chunks(8) {
        let mut page = Page::default();
        let mut questions: Vec<(usize, String, Vec<String>)> = Vec::new();
        for paragraph in group
            .iter()
            .flat_map(|a| a["paragraphs"].as_array().expect("paragraphs"))
        {
            for qa in paragraph["qas"].as_array().expect("questions") {
                let answers = qa["answers"]
                    .as_array()
                    .expect("answers")
                    .iter()
                    .map(|a| a["text"].as_str().unwrap_or("").to_owned())
                    .collect();
                questions.push((
                    page.blocks.len(),
                    qa["question"].as_str().unwrap_or("").to_owned(),
                    answers,
                ));
            }
            page.blocks.push(Block {
                kind: BlockKind::Text,
                level: 0,
                text: paragraph["context"].as_str().unwrap_or("").to_owned(),
                refs: Vec::new(),
                main: true,
                chrome: false,
                collapsed: false,
            });
        }
        let total: usize = page.blocks.iter().map(|b| b.text.len()).sum();
        let word_count: usize = page.blocks.iter().map(|b| b.text.split_whitespace().count()).sum();
        let bytes = words * total / word_count;
        for (gold, question, answers) in questions {
            let chosen = choose(&page, Some(&question), bytes);
            let text = match &chosen.parts[gold] {
                Part::Nothing => String::new(),
                Part::Whole => page.blocks[gold].text.clone(),
                Part::Ranges(ranges) => ranges
                    .iter()
                    .map(|(a, b)| &page.blocks[gold].text[*a..*b])
                    .collect::<Vec<_>>()
                    .join(" "),
            };
            all += 1;
            kept += usize::from(answers.iter().any(|a| text.contains(a.as_str())));
        }
    }
    Some((kept, all))
}

#[test]
fn answers_are_retained() {
    for (words, least) in [(50, 0.75), (100, 0.90), (200, 0.94), (400, 0.95)] {
        let Some((kept, all)) = retained(words) else { return };
        let share = kept as f64 / all as f64;
        println!(
            "{words} words of eight articles: {kept} of {all} answers retained ({:.1} %)",
            100.0 * share
        );
        assert!(share >= least, "{words} words: {share}");
    }
}
