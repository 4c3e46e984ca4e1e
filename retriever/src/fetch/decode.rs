//! Content encodings: one layer, every byte counted as it comes out.

use super::error::{FetchError, Large, Slow};
use std::io::Read;
use std::time::Instant;

/// What is offered to servers.
pub(crate) const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// The largest window that a zstd frame may ask for (RFC 8878 §3.1.1.1.2 lets decoders stop at 8 MiB).
const ZSTD_WINDOW: u64 = 8 << 20;

/// Bounds of one decoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that may come out.
    pub(crate) bytes: u64,
    /// When to stop, and the limit to name then.
    pub(crate) deadline: Option<(Instant, u64)>,
}

/// Takes off the content encoding that the header names.
pub(crate) fn decode(encoding: &str, wire: Vec<u8>, bounds: Bounds) -> Result<Vec<u8>, FetchError> {
    let encoding = encoding.trim().to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => {
            if wire.len() as u64 > bounds.bytes {
                return Err(FetchError::TooLarge(Large::Decoded(bounds.bytes)));
            }
            Ok(wire)
        }
        _ if encoding.contains(',') => Err(FetchError::Encoding(format!(
            "content encoding “{encoding}” has more than one layer"
        ))),
        // Some servers answer with an encoding and nothing in it.
        "gzip" | "x-gzip" | "br" | "zstd" | "deflate" if wire.is_empty() => Ok(wire),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(wire.as_slice()), "gzip", bounds),
        "br" => read(
            brotli_decompressor::Decompressor::new(wire.as_slice(), 4096),
            "br",
            bounds,
        ),
        "zstd" => zstd(&wire, bounds),
        // The name stands for zlib, but some servers send it bare (RFC 9110 §8.4.1.2).
        "deflate" if is_zlib(&wire) => read(flate2::read::ZlibDecoder::new(wire.as_slice()), "deflate", bounds),
        "deflate" => read(flate2::read::DeflateDecoder::new(wire.as_slice()), "deflate", bounds),
        _ => Err(FetchError::Encoding(format!("unknown content encoding “{encoding}”"))),
    }
}

fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [a, b, ..] if a & 0x0f == 8 && (u16::from(*a) << 8 | u16::from(*b)) % 31 == 0)
}

fn read(decoder: impl Read, name: &str, bounds: Bounds) -> Result<Vec<u8>, FetchError> {
    let mut out = Vec::new();
    read_into(decoder, name, bounds, &mut out)?;
    Ok(out)
}

fn read_into(mut decoder: impl Read, name: &str, bounds: Bounds, out: &mut Vec<u8>) -> Result<(), FetchError> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let n = match decoder.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(FetchError::Encoding(format!("malformed {name}: {e}"))),
        };
        if out.len() as u64 + n as u64 > bounds.bytes {
            return Err(FetchError::TooLarge(Large::Decoded(bounds.bytes)));
        }
        if let Some((deadline, ms)) = bounds.deadline
            && Instant::now() > deadline
        {
            return Err(FetchError::Timeout(Slow::Total(ms)));
        }
        out.extend_from_slice(&piece[..n]);
    }
}

/// All frames, one after the other; skippable ones are skipped.
fn zstd(wire: &[u8], bounds: Bounds) -> Result<Vec<u8>, FetchError> {
    let mut out = Vec::new();
    let mut rest = wire;
    while !rest.is_empty() {
        if let [a, 0x2a, 0x4d, 0x18, l0, l1, l2, l3, tail @ ..] = rest
            && a & 0xf0 == 0x50
        {
            let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
            rest = tail.get(length..).unwrap_or(&[]);
            continue;
        }
        let mut decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(rest, ZSTD_WINDOW)
            .map_err(|e| FetchError::Encoding(format!("malformed zstd: {e}")))?;
        read_into(&mut decoder, "zstd", bounds, &mut out)?;
        rest = decoder.into_inner();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const BOUNDS: Bounds = Bounds {
        bytes: 1 << 20,
        deadline: None,
    };
    // "hello, picktwo\n", made with the reference tools.
    const BROTLI: &[u8] = b"\x0f\x07\x80hello, picktwo\n\x03";

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).expect("a vector takes everything");
        encoder.finish().expect("a vector takes everything")
    }

    #[test]
    fn each_encoding_is_taken_off() {
        let text = b"hello, picktwo\n".to_vec();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).expect("a vector takes everything");
        let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        bare.write_all(&text).expect("a vector takes everything");
        for (name, wire) in [
            ("", text.clone()),
            ("identity", text.clone()),
            ("gzip", gzip(&text)),
            ("X-GZIP ", gzip(&text)),
            ("deflate", zlib.finish().expect("a vector takes everything")),
            ("deflate", bare.finish().expect("a vector takes everything")),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd_raw(&text)),
            (
                "zstd",
                [b"\x50\x2a\x4d\x18\x02\x00\x00\x00xx".to_vec(), zstd_raw(&text)].concat(),
            ),
        ] {
            assert_eq!(decode(name, wire, BOUNDS), Ok(text.clone()), "{name}");
        }
    }

    /// A zstd frame of one raw block, without checksum.
    fn zstd_raw(data: &[u8]) -> Vec<u8> {
        let mut frame = b"\x28\xb5\x2f\xfd\x20".to_vec();
        frame.push(data.len() as u8);
        frame.extend_from_slice(&((data.len() as u32) << 3 | 1).to_le_bytes()[..3]);
        frame.extend_from_slice(data);
        frame
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 17);
        assert_eq!(
            decode("gzip", bomb, BOUNDS),
            Err(FetchError::TooLarge(Large::Decoded(1 << 20)))
        );
        assert_eq!(
            decode("", vec![0; (1 << 20) + 1], BOUNDS),
            Err(FetchError::TooLarge(Large::Decoded(1 << 20)))
        );
        // 128 KiB of one byte from four: an RLE block for each step.
        let mut frame = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
        for _ in 0..1000 {
            frame.extend_from_slice(&((128u32 << 10) << 3 | 2).to_le_bytes()[..3]);
            frame.push(b'x');
        }
        assert_eq!(
            decode("zstd", frame, BOUNDS),
            Err(FetchError::TooLarge(Large::Decoded(1 << 20)))
        );
    }

    #[test]
    fn a_wide_zstd_window_is_refused_before_memory_is_taken() {
        // Window descriptor 0x98: 2^(10+19) bytes.
        let frame = b"\x28\xb5\x2f\xfd\x00\x98\x09\x00\x00x".to_vec();
        assert!(matches!(decode("zstd", frame, BOUNDS), Err(FetchError::Encoding(_))));
    }

    #[test]
    fn what_is_malformed_or_layered_is_refused() {
        for (name, wire) in [
            ("gzip", b"not gzip".to_vec()),
            ("gzip", gzip(b"cut short")[..12].to_vec()),
            ("br", vec![0xff; 20]),
            ("zstd", vec![1; 9]),
        ] {
            assert!(
                matches!(decode(name, wire, BOUNDS), Err(FetchError::Encoding(_))),
                "{name}"
            );
        }
        for name in ["gzip, gzip", "br,gzip", "compress", "x\u{1b}y"] {
            assert!(
                matches!(decode(name, gzip(b"x"), BOUNDS), Err(FetchError::Encoding(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn a_deadline_ends_it() {
        let bounds = Bounds {
            bytes: 1 << 30,
            deadline: Some((Instant::now(), 7)),
        };
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(
            decode("gzip", gzip(&vec![0; 1 << 20]), bounds),
            Err(FetchError::Timeout(Slow::Total(7)))
        );
    }
}
