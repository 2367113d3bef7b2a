//! Thousands of random workloads, with time that is only a number.

use super::*;
use crate::Priority;
use crate::random::{Random, Stream};
use std::collections::BTreeMap as Map;
use std::println;

const PAGE: usize = 32;

/// A sequence that is to become so long.
#[derive(Clone, Debug)]
struct Text {
    client: u64,
    priority: Priority,
    arrival: Duration,
    /// Tokens there are, of which the last was perhaps just generated.
    tokens: usize,
    end: usize,
    prompt: usize,
    computed: usize,
    pages: usize,
    /// Pages left behind when its memory was taken, as long as nobody needs them.
    cached: usize,
    started: Option<Duration>,
    first: Option<Duration>,
    latest: Option<Duration>,
    canceled: Option<Duration>,
}

/// Pages that are only counted.
struct Memory {
    free: usize,
    texts: Map<u64, Text>,
}

impl Memory {
    fn take(&mut self, pages: usize) -> bool {
        while self.free < pages {
            let Some(text) = self.texts.values_mut().find(|text| text.cached > 0) else {
                return false;
            };
            text.cached -= 1;
            self.free += 1;
        }
        self.free -= pages;
        true
    }

    fn in_use(&self) -> usize {
        self.texts
            .values()
            .map(|text| text.pages + text.cached)
            .sum()
    }
}

impl Pages for Memory {
    fn admit(&mut self, sequence: SequenceId, headroom: usize) -> Option<usize> {
        let text = self.texts.get_mut(&sequence.0).unwrap();
        assert_eq!((text.pages, text.computed), (0, 0));
        let kept = text.cached.min((text.tokens - 1) / PAGE);
        let needed = text.tokens.div_ceil(PAGE) - kept;
        text.cached -= kept;
        if !self.take(needed + headroom) {
            self.texts.get_mut(&sequence.0).unwrap().cached += kept;
            return None;
        }
        self.free += headroom;
        let text = self.texts.get_mut(&sequence.0).unwrap();
        text.pages = needed + kept;
        text.computed = kept * PAGE;
        Some(text.tokens - text.computed)
    }

    fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> bool {
        let text = &self.texts[&sequence.0];
        let missing = (text.computed + tokens)
            .div_ceil(PAGE)
            .saturating_sub(text.pages);
        if !self.take(missing) {
            return false;
        }
        self.texts.get_mut(&sequence.0).unwrap().pages += missing;
        true
    }

    fn release(&mut self, sequence: SequenceId) {
        let text = self.texts.get_mut(&sequence.0).unwrap();
        let whole = text.computed / PAGE;
        self.free += text.pages - whole;
        text.cached += whole;
        (text.pages, text.computed) = (0, 0);
    }
}

struct World {
    random: Random,
    scheduler: Scheduler,
    memory: Memory,
    pages: usize,
    now: Duration,
    room: Room,
    base: f64,
    each: f64,
    /// Sequences to come, the latest first.
    coming: Vec<(u64, Text)>,
    done: Vec<Text>,
    /// Of those that somebody waited for a next token in.
    longest_step: Duration,
    steps: usize,
    tokens_of: Map<u64, usize>,
    /// Whether constraints force tokens.
    forces: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Token);
        let mut pick = |from: u64, to: u64| from + random.next_u64() % (to - from);
        let pages = pick(24, 200) as usize;
        let sequences = pick(1, 12) as usize;
        let base = pick(1, 80) as f64 / 1000.0;
        let each = pick(10, 5000) as f64 / 1e6;
        let room = Room {
            tokens: pick(16, 512) as usize,
            sequences,
            target: Duration::from_millis(200),
        };
        Self {
            random,
            scheduler: Scheduler::default(),
            memory: Memory {
                free: pages,
                texts: Map::new(),
            },
            pages,
            now: Duration::ZERO,
            room,
            base,
            each,
            coming: Vec::new(),
            done: Vec::new(),
            longest_step: Duration::ZERO,
            steps: 0,
            tokens_of: Map::new(),
            forces: false,
        }
    }

    fn pick(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.next_u64() % (to - from)
    }

    fn fill(&mut self, texts: u64, clients: u64) {
        let mut arrival = Duration::ZERO;
        for id in 0..texts {
            arrival += Duration::from_millis(self.pick(0, 300));
            let most = (self.pages * PAGE) as u64;
            let prompt = match self.pick(0, 4) {
                0 => self.pick(most / 4, most / 2),
                _ => self.pick(1, most / 8),
            } as usize;
            let end = prompt + self.pick(1, most / 8) as usize;
            let text = Text {
                client: self.pick(0, clients),
                priority: [Priority::Low, Priority::Normal, Priority::High]
                    [self.pick(0, 3) as usize],
                arrival,
                tokens: prompt,
                end,
                prompt,
                computed: 0,
                pages: 0,
                cached: 0,
                started: None,
                first: None,
                latest: None,
                canceled: (self.pick(0, 10) < 3)
                    .then(|| arrival + Duration::from_millis(self.pick(0, 20_000))),
            };
            self.coming.push((id, text));
        }
        self.coming.reverse();
    }

    fn arrive(&mut self) {
        while self
            .coming
            .last()
            .is_some_and(|(_, text)| text.arrival <= self.now)
        {
            let (id, text) = self.coming.pop().unwrap();
            self.scheduler.add(ScheduledSequence {
                id: SequenceId(id),
                client: ClientId(text.client),
                priority: text.priority,
                arrival: text.arrival,
                urgent: None,
                target: None,
                pending: text.tokens,
                admitted: false,
                displaced: 0,
            });
            self.memory.texts.insert(id, text);
        }
    }

    fn end(&mut self, id: u64) {
        self.scheduler.remove(SequenceId(id));
        self.memory.release(SequenceId(id));
        let text = self.memory.texts.remove(&id).unwrap();
        self.memory.free += text.cached;
        self.done.push(text);
    }

    fn step(&mut self) {
        self.arrive();
        let canceled: Vec<u64> = self
            .memory
            .texts
            .iter()
            .filter(|(_, text)| text.canceled.is_some_and(|at| at <= self.now))
            .map(|(&id, _)| id)
            .collect();
        canceled.into_iter().for_each(|id| self.end(id));
        let waits = |text: &Text| text.pages > 0 && text.tokens - text.computed == 1;
        let decodes = self.memory.texts.values().any(waits);
        let shares = self
            .scheduler
            .plan(self.now, self.room, &mut self.memory)
            .to_vec();
        let tokens: usize = shares.iter().map(|share| share.tokens).sum();
        assert!(tokens <= self.room.tokens);
        assert_eq!(
            self.memory.in_use() + self.memory.free,
            self.pages,
            "no page is lost"
        );
        if shares.is_empty() {
            assert!(
                self.memory.texts.is_empty(),
                "somebody waits and nothing is done"
            );
            match self.coming.last() {
                Some((_, text)) => self.now = text.arrival,
                None => return,
            }
            return;
        }
        let noise = 0.95 + 0.1 * self.random.next_f64();
        let time = Duration::from_secs_f64((self.base + self.each * tokens as f64) * noise);
        self.now += time;
        self.steps += 1;
        if decodes && self.steps > 30 {
            self.longest_step = self.longest_step.max(time);
        }
        self.scheduler.learn(tokens, time);
        for share in shares {
            self.advance(share);
        }
    }

    fn advance(&mut self, share: Share) {
        // A constraint may force several tokens at once.
        let forced = self.forces && self.pick(0, 8) == 0;
        let new = if forced {
            self.pick(2, 3 * PAGE as u64) as usize
        } else {
            1
        };
        let text = self.memory.texts.get_mut(&share.sequence.0).unwrap();
        *self.tokens_of.entry(text.client).or_default() += share.tokens;
        text.started.get_or_insert(self.now);
        text.computed += share.tokens;
        assert!(text.computed <= text.tokens && text.computed <= text.pages * PAGE);
        if text.computed == text.tokens {
            text.first.get_or_insert(self.now);
            text.latest = Some(self.now);
            if text.tokens == text.end {
                return self.end(share.sequence.0);
            }
            text.tokens = (text.tokens + new).min(text.end);
        }
        let pending = text.tokens - text.computed;
        self.scheduler.set_pending(share.sequence, pending);
    }

    fn run(&mut self, most: usize) {
        while !self.coming.is_empty() || !self.memory.texts.is_empty() {
            self.step();
            assert!(self.steps < most, "no end: {:?}", self.memory.texts);
        }
    }
}

#[test]
fn whatever_comes_everything_ends_and_no_page_is_lost() {
    let (mut preemptions, mut worst) = (0, 0.0f64);
    for seed in 0..1000 {
        let mut world = World::new(seed);
        let (texts, clients) = (world.pick(1, 40), world.pick(1, 5));
        world.fill(texts, clients);
        world.run(200_000);
        assert_eq!(world.done.len() as u64, texts, "seed {seed}");
        assert_eq!(world.memory.free, world.pages, "seed {seed}");
        preemptions += world.scheduler.preemptions();
        // What cannot be had is not asked for: all places taken and the least piece of a prompt.
        let least = world.base + world.each * (world.room.sequences + LEAST_CHUNK) as f64;
        let target = world.room.target.as_secs_f64();
        let ratio = world.longest_step.as_secs_f64() / target.max(least);
        assert!(
            ratio < 2.0,
            "seed {seed}: a step of {:?}",
            world.longest_step
        );
        worst = worst.max(ratio);
    }
    println!("{preemptions} preemptions; the longest step is {worst:.2} of its target");
    assert!(preemptions > 500, "memory was never short: {preemptions}");
}

/// Tokens that a constraint forces come after admission, several at once: a share of them has its pages too.
#[test]
fn forced_tokens_never_exceed_their_pages() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.forces = true;
        let texts = world.pick(2, 40);
        world.fill(texts, 3);
        world.run(200_000);
        assert_eq!(world.done.len() as u64, texts, "seed {seed}");
        assert_eq!(world.memory.free, world.pages, "seed {seed}");
    }
}

/// A world of known speed: 40 ms a step, 5 ms a token, 8 places.
fn plain_world(seed: u64, pages: usize) -> World {
    let mut world = World::new(seed);
    (world.base, world.each) = (0.04, 0.005);
    (world.pages, world.memory.free) = (pages, pages);
    (world.room.sequences, world.room.tokens) = (8, 512);
    world
}

fn text(client: u64, arrival: u64, prompt: usize, generated: usize) -> Text {
    Text {
        client,
        priority: Priority::Normal,
        arrival: Duration::from_millis(arrival),
        tokens: prompt,
        end: prompt + generated,
        prompt,
        computed: 0,
        pages: 0,
        cached: 0,
        started: None,
        first: None,
        latest: None,
        canceled: None,
    }
}

#[test]
fn a_long_prompt_stalls_neither_running_texts_nor_short_prompts() {
    let mut world = plain_world(1, 1000);
    for id in 0..4 {
        world.coming.push((id, text(id, 0, 20, 800)));
    }
    world.coming.push((4, text(4, 1000, 8000, 10)));
    world.coming.push((5, text(4, 2000, 40, 10)));
    world.coming.reverse();
    let (mut gaps, mut last) = (Vec::new(), Map::new());
    while world.done.is_empty() || !world.memory.texts.is_empty() {
        world.step();
        for (&id, text) in world.memory.texts.iter().filter(|(id, _)| **id < 4) {
            if let Some(latest) = text.latest
                && let Some(before) = last.insert(id, latest)
                && latest > before
            {
                gaps.push(latest - before);
            }
        }
        assert!(world.steps < 10_000);
    }
    gaps.sort_unstable();
    let p99 = gaps[gaps.len() * 99 / 100];
    assert!(
        p99 < Duration::from_millis(250),
        "p99 between tokens is {p99:?}"
    );
    let short = world.done.iter().find(|text| text.prompt == 40).unwrap();
    let waited = short.first.unwrap() - short.arrival;
    assert!(
        waited < Duration::from_secs(3),
        "a short prompt waited {waited:?}"
    );
    let long = world.done.iter().find(|text| text.prompt == 8000).unwrap();
    let took = long.first.unwrap() - long.arrival;
    // 8000 tokens take 40 s by themselves.
    assert!(
        took < Duration::from_secs(75),
        "the long prompt took {took:?}"
    );
}

#[test]
fn a_client_that_floods_the_queue_gets_no_more_than_its_share() {
    let mut world = plain_world(2, 4000);
    for id in 0..60 {
        world.coming.push((id, text(0, 0, 400, 20)));
    }
    for id in 60..80 {
        world.coming.push((id, text(1, 100, 400, 20)));
    }
    world.coming.reverse();
    while world.done.iter().filter(|text| text.client == 1).count() < 19 {
        world.step();
    }
    let share = world.tokens_of[&1] as f64 / world.tokens_of.values().sum::<usize>() as f64;
    assert!(share > 0.4, "the second client got {share:.2}");
}

#[test]
fn priorities_shorten_the_wait_and_nobody_waits_for_ever() {
    let mut world = plain_world(3, 300);
    for id in 0..120 {
        let mut text = text(0, 200 * id, 100, 30);
        text.priority = [Priority::Low, Priority::High][id as usize % 2];
        world.coming.push((id, text));
    }
    world.coming.reverse();
    world.run(100_000);
    let wait = |priority| {
        let of = world.done.iter().filter(|text| text.priority == priority);
        let waits: Vec<f64> = of
            .map(|t| (t.first.unwrap() - t.arrival).as_secs_f64())
            .collect();
        (
            waits.iter().sum::<f64>() / waits.len() as f64,
            waits.iter().fold(0.0, |a: f64, &b| a.max(b)),
        )
    };
    let (low, high) = (wait(Priority::Low), wait(Priority::High));
    assert!(high.0 * 2.0 < low.0, "{high:?} {low:?}");
    // 60 s ahead of its time at most, and then its turn.
    assert!(low.1 < 120.0, "{low:?}");
}

#[test]
fn a_text_near_its_deadline_comes_first() {
    let mut world = plain_world(4, 300);
    world.room.sequences = 1;
    for id in 0..3 {
        world.coming.push((id, text(0, 0, 200 + id as usize, 5)));
    }
    world.coming.reverse();
    world.arrive();
    world.scheduler.sequences[2].urgent = Some(Duration::ZERO);
    world.run(1000);
    let order: Vec<usize> = world.done.iter().map(|text| text.prompt).collect();
    assert_eq!(order, [202, 200, 201]);
}
