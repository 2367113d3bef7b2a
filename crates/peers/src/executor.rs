//! The model of all machines, behind the engine's seam to devices.

use crate::link::Link;
use crate::message::Part;
use crate::pieces::{Piece, cut, piece_tokens};
use std::sync::mpsc::{Receiver, Sender, channel};
use strata_model::{
    Adapter, BatchError, BatchLimits, Config, CpuStretch, EncoderInput, Executor, ExecutorMemory,
    KvType, Outputs, PageCopy, PageId, PageLayout, PageTable, Span, StateId,
};

/// Whether large batches are computed in pieces, so that machines work at the same time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Unless all are on this machine, where they would wait for the same processors.
    #[default]
    Auto,
    /// In any case.
    Always,
}

/// A model whose first layers are here and whose others are on peers.
pub struct PeeredExecutor {
    local: CpuStretch,
    links: Vec<Link>,
    layout: PageLayout,
    /// Bytes of each machine's part of a page and of a state, the head's first.
    parts: Vec<(usize, usize)>,
    states: usize,
    overlaps: bool,
    /// Called before peers are waited for.
    rest: Box<dyn Fn() + Send>,
    stream: Vec<u8>,
}

impl PeeredExecutor {
    /// The head's layers, and those of the links, in order. All have memory for as many pages as `local` has, and for so
    /// many states. `rest` is called before peers are waited for.
    pub fn new(
        local: CpuStretch,
        links: Vec<Link>,
        (kv, states): (KvType, usize),
        overlap: Overlap,
        rest: Box<dyn Fn() + Send>,
    ) -> Self {
        let config = local.config();
        let starts: Vec<usize> = links.iter().map(|link| link.layers().start).collect();
        let ranges = links.iter().map(Link::layers);
        let ranges = std::iter::once(local.stretch().layers()).chain(ranges);
        let parts = ranges.map(|layers| {
            let part = PageLayout::of_layers(config, kv, layers);
            (part.page_bytes(), part.state_bytes())
        });
        Self {
            parts: parts.collect(),
            layout: PageLayout::of_machines(config, kv, &starts),
            overlaps: overlap == Overlap::Always || !links.iter().all(Link::is_here),
            states,
            links,
            rest,
            stream: Vec::new(),
            local,
        }
    }

    /// Puts the residual stream of a batch after all layers into the local stretch.
    fn compute(&mut self, table: &PageTable, batch: &[Span<'_>]) -> Result<(), BatchError> {
        let tokens: usize = batch.iter().map(|span| span.tokens.len()).sum();
        let each = piece_tokens(tokens, self.links.len() + 1);
        if self.overlaps && each < tokens {
            return self.overlapped(table, cut(batch, each));
        }
        let mut piece = Piece::whole(batch);
        let mut stream = std::mem::take(&mut self.stream);
        stream.clear();
        let computed = self.local_layers(table, &mut piece, &mut stream);
        (self.rest)();
        let computed = computed.and_then(|()| {
            let mut links = self.links.iter();
            links
                .try_for_each(|link| link.forward(table, piece.parts(), &mut stream))
                .map_err(|reason| BatchError::Lost { reason })
        });
        let read = computed.and_then(|()| self.take(0, tokens, &stream));
        self.stream = stream;
        read
    }

    /// The head's part of a piece, which `stream` then has.
    fn local_layers(
        &mut self,
        table: &PageTable,
        piece: &mut Piece<'_>,
        stream: &mut Vec<u8>,
    ) -> Result<(), BatchError> {
        let tokens = piece.tokens;
        let spans = piece.spans();
        self.local.embed(&spans);
        self.local.run(table, &spans)?;
        self.local.write_stream(tokens, stream);
        Ok(())
    }

    fn take(&mut self, first: usize, tokens: usize, stream: &[u8]) -> Result<(), BatchError> {
        if self.local.read_stream(first, tokens, stream) {
            return Ok(());
        }
        let reason = "a residual stream came back with another length".into();
        Err(BatchError::Lost { reason })
    }

    /// Computes pieces one after the other, each machine its part as soon as the one before has done its own.
    fn overlapped(&mut self, table: &PageTable, pieces: Vec<Piece<'_>>) -> Result<(), BatchError> {
        let links = std::mem::take(&mut self.links);
        let done = std::thread::scope(|scope| {
            let (first, mut inbox) = channel();
            for link in &links {
                let (next, following) = channel();
                let own = std::mem::replace(&mut inbox, following);
                scope.spawn(move || pass_on(link, table, &own, &next));
            }
            for mut piece in pieces {
                let mut stream = Vec::new();
                self.local_layers(table, &mut piece, &mut stream)?;
                let moving = Moving {
                    first: piece.first,
                    tokens: piece.tokens,
                    parts: piece.parts(),
                    stream,
                };
                // Where it has gone, why comes out at the other end.
                let _ = first.send(Ok(moving));
            }
            drop(first);
            (self.rest)();
            Ok(inbox.iter().collect::<Vec<_>>())
        });
        self.links = links;
        for moved in done? {
            let Moving {
                first,
                tokens,
                stream,
                ..
            } = moved.map_err(|reason| BatchError::Lost { reason })?;
            self.take(first, tokens, &stream)?;
        }
        Ok(())
    }

    /// A page's or state's bytes, by machine.
    fn split<'b>(
        &self,
        bytes: &'b [u8],
        of: impl Fn(&(usize, usize)) -> usize,
    ) -> impl Iterator<Item = &'b [u8]> {
        let mut rest = bytes;
        self.parts.iter().map(of).map(move |length| {
            let own;
            (own, rest) = rest.split_at(length);
            own
        })
    }
}

/// A piece on its way through the machines.
struct Moving {
    first: usize,
    tokens: usize,
    parts: Vec<Part>,
    stream: Vec<u8>,
}

/// Has one peer compute the pieces that come, and hands them on. After a failure nothing more is computed.
fn pass_on(
    link: &Link,
    table: &PageTable,
    inbox: &Receiver<Result<Moving, String>>,
    next: &Sender<Result<Moving, String>>,
) {
    for moving in inbox {
        let moved = moving.and_then(|mut moving| {
            link.forward(table, moving.parts.clone(), &mut moving.stream)?;
            Ok(moving)
        });
        let failed = moved.is_err();
        if next.send(moved).is_err() || failed {
            return;
        }
    }
}

impl Executor for PeeredExecutor {
    fn config(&self) -> &Config {
        self.local.config()
    }

    fn memory(&self) -> ExecutorMemory {
        self.local.memory()
    }

    fn limits(&self) -> BatchLimits {
        self.local.limits()
    }

    fn page_table(&self) -> PageTable {
        let pages = self.local.storage().pages();
        PageTable::new(self.layout.clone(), pages, self.states)
    }

    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.local.check(table, batch)?;
        self.compute(table, batch)?;
        for span in &mut *batch {
            span.sequence.advance(span.tokens.len());
        }
        Ok(self.local.outputs(batch))
    }

    fn take_loss(&mut self) -> Option<BatchError> {
        // All of them are asked: each must know that its loss was heard of.
        let losses: Vec<String> = self.links.iter().filter_map(Link::take_loss).collect();
        let reason = losses.into_iter().next()?;
        Some(BatchError::Lost { reason })
    }

    fn encode(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::Decoder)
    }

    fn rank(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::NoRankHead)
    }

    fn classify(&mut self, states: &[f32]) -> Result<&[f32], BatchError> {
        self.local.classify(states)
    }

    fn labels(&self) -> usize {
        self.local.labels()
    }

    fn accepts(&self, _: &Adapter) -> bool {
        false
    }

    fn copy_page(&mut self, table: &PageTable, copy: PageCopy) {
        self.local.storage_mut().copy(table, copy);
        for link in &self.links {
            link.copy_page(table, copy);
        }
    }

    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        let start = out.len();
        self.local.storage().read(table, page, out);
        let mut links = self.links.iter();
        if !links.all(|link| link.read_page(table, page, out)) {
            // Nothing is better than what is not the page.
            out.truncate(start);
        }
    }

    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.page_bytes());
        let mut parts = self.split(bytes, |part| part.0);
        let own = parts.next().unwrap_or_default();
        for (link, bytes) in self.links.iter().zip(parts) {
            link.write_page(table, page, bytes);
        }
        self.local.storage_mut().write(table, page, own);
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        if self.parts[0].1 > 0 {
            self.local.storage_mut().copy_state(from, to);
        }
        for (link, part) in self.links.iter().zip(&self.parts[1..]) {
            if part.1 > 0 {
                link.copy_state(from, to);
            }
        }
    }

    fn read_state(&self, state: StateId, out: &mut Vec<u8>) {
        let start = out.len();
        if self.parts[0].1 > 0 {
            out.extend_from_slice(self.local.storage().state(state));
        }
        let mut links = self.links.iter().zip(&self.parts[1..]);
        if !links.all(|(link, part)| part.1 == 0 || link.read_state(state, out)) {
            out.truncate(start);
        }
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        let mut parts = self.split(bytes, |part| part.1);
        let own = parts.next().unwrap_or_default();
        for (link, bytes) in self.links.iter().zip(parts) {
            if !bytes.is_empty() {
                link.write_state(state, bytes);
            }
        }
        if !own.is_empty() {
            let stored = self.local.storage_mut().state_mut(state);
            stored.copy_from_slice(own);
        }
    }
}
