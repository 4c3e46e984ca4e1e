use super::*;
use picktwo_wire::answer::BlockKind;
use std::io::Write;

/// A document of one font per name and pages with these contents.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned().into_bytes(),
        format!(
            "<< /Type /Pages /Count {} /Kids [{}] >>",
            pages.len(),
            (0..pages.len())
                .map(|n| format!("{} 0 R ", 6 + 2 * n))
                .collect::<String>()
        )
        .into_bytes(),
        b"<< /Title (A Manual) >>".to_vec(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>".to_vec(),
    ];
    for (n, content) in pages.iter().enumerate() {
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R /Resources << /Font << /F 4 0 R /C 5 0 R >> >> >>",
                7 + 2 * n
            )
            .into_bytes(),
        );
        objects.push(stream("", content.as_bytes()));
    }
    file(&objects)
}

/// A compressed stream.
fn stream(entries: &str, content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("a vector takes everything");
    let data = encoder.finish().expect("a vector takes everything");
    let head = format!("<< {entries} /Filter /FlateDecode /Length {} >>\nstream\n", data.len());
    [head.as_bytes(), &data, b"\nendstream"].concat()
}

fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        places.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n", n + 1).as_bytes());
        out.extend_from_slice(object);
        out.extend_from_slice(b"\nendobj\n");
    }
    let table = out.len();
    out.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes());
    for place in places {
        out.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    let size = objects.len() + 1;
    out.extend_from_slice(
        format!("trailer << /Size {size} /Root 1 0 R /Info 3 0 R >>\nstartxref\n{table}\n%%EOF").as_bytes(),
    );
    out
}

fn shape(page: &Page) -> Vec<(BlockKind, u8, &str)> {
    page.blocks.iter().map(|b| (b.kind, b.level, b.text.as_str())).collect()
}

#[test]
fn headings_paragraphs_and_code_are_told_apart() {
    let page = read(&pdf(&[
        "BT /F 24 Tf 50 700 Td (Getting started) Tj ET
         BT /F 11 Tf 50 660 Td (The server listens on port 8443 unless the config-) Tj 0 -14 Td (uration says otherwise. It) Tj
         0 -14 Td (stops on SIGTERM.) Tj 0 -40 Td (A second paragraph stands) Tj 0 -14 Td (here and goes on) Tj ET
         BT /C 10 Tf 50 500 Td (def main\\(\\):) Tj 24 -12 Td (if ready:) Tj 24 -12 Td (serve\\(8443\\)) Tj ET",
        "BT /F 11 Tf 50 750 Td [(over the) -300 (page and K) 80 (erned.)] TJ 0 -720 Td (12) Tj ET",
    ]))
    .expect("a document");
    assert_eq!(
        shape(&page),
        [
            (BlockKind::Heading, 1, "Getting started"),
            (
                BlockKind::Text,
                0,
                "The server listens on port 8443 unless the configuration says otherwise. It stops on SIGTERM."
            ),
            (BlockKind::Text, 0, "A second paragraph stands here and goes on"),
            (BlockKind::Code, 0, "def main():\n    if ready:\n        serve(8443)"),
            (BlockKind::Text, 0, "over the page and Kerned."),
        ]
    );
    assert_eq!(page.title, "A Manual");
    assert!(page.flags.is_empty(), "{:?}", page.flags);
}

#[test]
fn what_the_page_does_not_show_is_removed_and_counted() {
    let page = read(&pdf(&[
        "
        BT /F 11 Tf 50 700 Td (This is what everybody reads on the page.) Tj ET
        BT 3 Tr /F 11 Tf 50 600 Td (MARKA) Tj ET
        BT 0 Tr 1 1 1 rg /F 11 Tf 50 580 Td (MARKB) Tj ET
        BT 0 g /F 0.5 Tf 50 560 Td (MARKC) Tj ET
        BT /F 11 Tf 900 540 Td (MARKD) Tj ET
        BT /F 11 Tf 50 520 Td (MARKE) Tj ET 1 g 40 510 200 30 re f
        0 g 40 440 200 40 re f BT 1 g /F 11 Tf 50 450 Td (White on black.) Tj ET
        0 g q 0 0 10 10 re W n BT /F 11 Tf 50 400 Td (MARKF) Tj ET Q
        q 0.2 0.4 0.9 rg 40 340 300 30 re f 0.21 0.41 0.9 rg BT /F 11 Tf 50 350 Td (MARKG) Tj ET Q",
    ]))
    .expect("a document");
    let all: String = page.blocks.iter().map(|b| format!("{}|", b.text)).collect();
    assert_eq!(all, "This is what everybody reads on the page.|White on black.|");
    assert_eq!((page.flags[0].id.as_str(), page.flags[0].count), ("hidden-text", 35));
}

#[test]
fn scanned_pages_are_read_by_their_invisible_text_and_say_so() {
    let page = read(&pdf(&[
        "BT 3 Tr /F 11 Tf 50 600 Td (Recognised text of a scanned page.) Tj ET",
    ]))
    .expect("a document");
    assert_eq!(page.blocks[0].text, "Recognised text of a scanned page.");
    assert_eq!(page.flags[0].id, "veiled");
}

#[test]
fn bombs_and_ruins_end() {
    let bomb = "BT /F 9 Tf (x) Tj ET ".repeat(3_200_000);
    assert_eq!(
        read(&pdf(&[&bomb])).err(),
        Some(FetchError::TooLarge(Large::Decoded(MAX_STREAM)))
    );
    let whole = pdf(&["BT /F 11 Tf 50 700 Td (The text) Tj ET"]);
    for cut in (0..whole.len()).step_by(43) {
        let _ = read(&whole[..cut]);
        let mut other = whole.clone();
        other[cut] ^= 0x15;
        let _ = read(&other);
    }
    assert!(read(b"%PDF-1.7\nnothing").is_err());
}

#[test]
fn forms_within_forms_within_themselves_end() {
    let form = |draws: &str| {
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /XObject << /A 5 0 R /B 6 0 R >> >>",
            draws.as_bytes(),
        )
    };
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>".to_vec(),
        b"<< >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 7 0 R /Resources << /XObject << /A 5 0 R >> >> >>".to_vec(),
        form(&"/B Do ".repeat(10)),
        form(&"/A Do ".repeat(10)),
        stream("", b"/A Do"),
    ];
    let started = Instant::now();
    let _ = read(&file(&objects));
    assert!(
        started.elapsed() < TIME + Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}
