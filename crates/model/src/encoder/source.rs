//! Sources of an encoder-decoder: read once, as a whole, into the keys and values that its decoder sees of them.

use super::EncoderInput;
use super::pass::EncoderPass;
use super::weights::Encoder;
use crate::batch::Span;
use crate::blueprint::Decoder;
use crate::decoder::Pass;
use crate::pages::{PAGE, PagesMut};
use crate::workspace::Workspace;

impl Pass<'_> {
    /// Reads the sources of the sequences that begin in this batch, and stores their keys and values for every layer.
    pub(crate) fn read_sources(
        &self,
        encoder: &Encoder,
        decoder: &Decoder,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Some(source) = &self.config.source else {
            return;
        };
        let tokens = self.batch.iter().map(Span::read).sum();
        if tokens == 0 {
            return;
        }
        let sources = self.batch.iter().filter(|span| span.read() > 0);
        let inputs = sources.clone();
        let inputs = inputs.map(|span| EncoderInput::single(&span.tokens[..span.read()]));
        let parts = (encoder, &*source.encoder);
        let reading = EncoderPass::new(self.model, parts, self.compute, tokens);
        reading.run(work, inputs);
        work.stores.clear();
        let mut index = 0;
        for span in sources {
            for position in 0..span.read() {
                let page = span.sequence.pages[position / PAGE];
                work.stores.add(page, index, position);
                index += 1;
            }
        }
        for (index, layer) in decoder.layers.iter().enumerate() {
            if let Some(cross) = &layer.cross {
                reading.pass.store_source(index, cross, pages, work);
            }
        }
    }
}
