//! What is told to the record: refusals and grants, at a bounded rate.

use picktwo_confine::Errno;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

/// One decision about a file.
#[derive(Clone, Debug)]
pub struct Event {
    /// The calling thread, in the launcher's pid namespace.
    pub pid: i32,
    /// The system call.
    pub call: &'static str,
    /// The path: resolved if it lies in the workspace, otherwise as the caller gave it.
    pub path: PathBuf,
    /// The answer: `None` if it was granted.
    pub refused: Option<Errno>,
    /// Which rule decided: the protected path's, or `read-only`.
    pub rule: Option<String>,
    /// How many decisions of this kind were not told since the last one that was.
    pub suppressed: u64,
}

/// Tokens: how many events in a row, and how many per second after that.
const REFUSED: (f64, f64) = (200.0, 20.0);
const GRANTED: (f64, f64) = (100.0, 5.0);

/// Rules whose first refusal is told however many others came before.
const RULES: usize = 500;

struct Bucket {
    tokens: f64,
    at: Instant,
    suppressed: u64,
    /// The last one that was not told, for [`Events::rest`].
    last: Option<Event>,
    /// Those of which one was told.
    rules: HashSet<String>,
}

impl Bucket {
    fn new(limit: (f64, f64)) -> Bucket {
        Bucket {
            tokens: limit.0,
            at: Instant::now(),
            suppressed: 0,
            last: None,
            rules: HashSet::new(),
        }
    }

    /// Whether nothing of this rule was told yet.
    fn is_first(&mut self, rule: Option<&str>) -> bool {
        rule.is_some_and(|rule| {
            self.rules.len() < RULES && !self.rules.contains(rule) && self.rules.insert(rule.to_owned())
        })
    }

    /// The number suppressed before, if this one may be told.
    fn take(&mut self, limit: (f64, f64)) -> Option<u64> {
        if self.tokens < 1.0 {
            let now = Instant::now();
            self.tokens = (self.tokens + now.duration_since(self.at).as_secs_f64() * limit.1).min(limit.0);
            self.at = now;
        }
        if self.tokens < 1.0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Receives events.
pub type Sink = Box<dyn Fn(Event) + Send + Sync>;

/// The callback and its limits.
pub(crate) struct Events {
    sink: Sink,
    refused: Mutex<Bucket>,
    granted: Mutex<Bucket>,
}

impl Events {
    pub(crate) fn new(sink: Sink) -> Events {
        Events {
            sink,
            refused: Mutex::new(Bucket::new(REFUSED)),
            granted: Mutex::new(Bucket::new(GRANTED)),
        }
    }

    /// Tells one decision; what was granted is only put into words if it will be told.
    pub(crate) fn tell(&self, refused: bool, event: impl FnOnce() -> Event) {
        if !refused {
            let Ok(mut bucket) = self.granted.lock() else { return };
            let Some(suppressed) = bucket.take(GRANTED) else { return };
            drop(bucket);
            (self.sink)(Event { suppressed, ..event() });
            return;
        }
        let event = event();
        let Ok(mut bucket) = self.refused.lock() else { return };
        // What follows the name of a rule says why, and is whatever the caller made of it.
        let name = event.rule.as_deref().and_then(|rule| rule.split(':').next());
        let first = bucket.is_first(name);
        let suppressed = match bucket.take(REFUSED) {
            Some(suppressed) => suppressed,
            // A flood of one kind must not hide another.
            None if first => {
                bucket.suppressed -= 1;
                std::mem::take(&mut bucket.suppressed)
            }
            None => {
                bucket.last = Some(event);
                return;
            }
        };
        bucket.last = None;
        drop(bucket);
        (self.sink)(Event { suppressed, ..event });
    }

    /// Tells the last refusal, and how many before it were not told, if they were not.
    pub(crate) fn rest(&self) {
        let Ok(mut bucket) = self.refused.lock() else { return };
        let Some(event) = bucket.last.take() else { return };
        let suppressed = std::mem::take(&mut bucket.suppressed).saturating_sub(1);
        drop(bucket);
        (self.sink)(Event { suppressed, ..event });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_flood_is_counted_and_not_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = told.clone();
        let events = Events::new(Box::new(move |event| list.lock().unwrap().push(event.suppressed)));
        let before = Instant::now();
        for _ in 0..100_000 {
            events.tell(true, || refused("claude"));
        }
        let longest = REFUSED.0 + REFUSED.1 * before.elapsed().as_secs_f64();
        events.rest();
        let told = told.lock().unwrap();
        assert!(
            (REFUSED.0 as usize..longest as usize + 3).contains(&told.len()),
            "{}",
            told.len()
        );
        assert_eq!(told.iter().map(|before| before + 1).sum::<u64>(), 100_000);
    }

    fn refused(rule: &str) -> Event {
        Event {
            pid: 1,
            call: "open",
            path: "/x".into(),
            refused: Some(Errno::EROFS),
            rule: Some(rule.to_owned()),
            suppressed: 0,
        }
    }

    #[test]
    fn a_flood_hides_neither_another_rule_nor_its_own_number() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = told.clone();
        let events = Events::new(Box::new(move |event| {
            list.lock().unwrap().push((event.rule.unwrap(), event.suppressed));
        }));
        for _ in 0..1000 {
            events.tell(true, || refused("claude"));
        }
        events.tell(true, || refused("envrc"));
        for _ in 0..10 {
            events.tell(true, || refused("envrc"));
        }
        events.rest();
        events.rest();
        let told = told.lock().unwrap();
        let total: u64 = told.iter().map(|(_, suppressed)| suppressed + 1).sum();
        assert_eq!(total, 1011);
        assert!(
            told.iter().any(|(rule, before)| rule == "envrc" && *before > 500),
            "{told:?}"
        );
        assert_eq!(told.last().unwrap().0, "envrc");
    }
}
