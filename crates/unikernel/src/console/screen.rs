//! Text on a framebuffer: 8 by 16 pixels a character, the oldest lines give way.

use alloc::vec;
use alloc::vec::Vec;
use font8x8::legacy::BASIC_LEGACY;

const WIDTH: usize = 8;
const HEIGHT: usize = 16;
const INK: u32 = 0x00e0_e0e0;
/// Lines that go at once, because drawing a screen anew is slow.
const SCROLL: usize = 4;

/// Where pixels go.
pub trait Pixels: Send {
    /// Sets `pixels` from a place on.
    fn draw(&mut self, at: usize, pixels: &[u32; WIDTH]);
}

/// A screen of text.
pub struct Screen<P> {
    pixels: P,
    stride: usize,
    columns: usize,
    /// What is shown, line by line.
    cells: Vec<u8>,
    column: usize,
    line: usize,
}

impl<P: Pixels> Screen<P> {
    /// A clear screen of so many pixels, `stride` from one row to the next; nothing if it is too small for text.
    pub fn new(pixels: P, width: usize, height: usize, stride: usize) -> Option<Self> {
        let (columns, lines) = (width / WIDTH, height / HEIGHT);
        if columns < 1 || lines <= SCROLL || stride < width {
            return None;
        }
        let mut screen = Self {
            pixels,
            stride,
            columns,
            cells: vec![0; columns.checked_mul(lines)?],
            column: 0,
            line: 0,
        };
        screen.clear();
        Some(screen)
    }

    /// Empties the screen.
    pub fn clear(&mut self) {
        self.cells.fill(b' ');
        (self.column, self.line) = (0, 0);
        self.redraw();
    }

    /// Writes a byte; what is not ASCII shows as a question mark.
    pub fn put(&mut self, byte: u8) {
        match byte {
            b'\n' => self.new_line(),
            b'\r' => self.column = 0,
            8 => self.column = self.column.saturating_sub(1),
            0..=31 => {}
            _ => {
                if self.column == self.columns {
                    self.new_line();
                }
                let cell = self.line * self.columns + self.column;
                self.cells[cell] = if byte < 128 { byte } else { b'?' };
                self.draw(cell);
                self.column += 1;
            }
        }
    }

    fn new_line(&mut self) {
        self.column = 0;
        self.line += 1;
        if (self.line + 1) * self.columns > self.cells.len() {
            self.cells.copy_within(SCROLL * self.columns.., 0);
            let end = self.cells.len() - SCROLL * self.columns;
            self.cells[end..].fill(b' ');
            self.line -= SCROLL;
            self.redraw();
        }
    }

    fn redraw(&mut self) {
        (0..self.cells.len()).for_each(|cell| self.draw(cell));
    }

    fn draw(&mut self, cell: usize) {
        let (line, column) = (cell / self.columns, cell % self.columns);
        let glyph = BASIC_LEGACY[usize::from(self.cells[cell] & 127)];
        for row in 0..HEIGHT {
            let bits = glyph[row / 2];
            let pixels = core::array::from_fn(|x| if bits >> x & 1 == 1 { INK } else { 0 });
            let at = (line * HEIGHT + row) * self.stride + column * WIDTH;
            self.pixels.draw(at, &pixels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    struct Fake(Vec<u32>);

    impl Pixels for Fake {
        fn draw(&mut self, at: usize, pixels: &[u32; WIDTH]) {
            self.0[at..at + WIDTH].copy_from_slice(pixels);
        }
    }

    fn screen(columns: usize, lines: usize) -> Screen<Fake> {
        let stride = columns * WIDTH + 5;
        let pixels = Fake(vec![7; stride * lines * HEIGHT]);
        Screen::new(pixels, columns * WIDTH, lines * HEIGHT, stride).unwrap()
    }

    fn text(screen: &Screen<Fake>) -> Vec<String> {
        let lines = screen.cells.chunks(screen.columns);
        lines
            .map(|line| String::from_utf8_lossy(line).trim_end().into())
            .collect()
    }

    #[test]
    fn text_wraps_and_scrolls() {
        let mut screen = screen(4, 6);
        b"abcdef\n1\n2\r3\xff\x07"
            .iter()
            .for_each(|&byte| screen.put(byte));
        assert_eq!(text(&screen), ["abcd", "ef", "1", "3?", "", ""]);
        b"\n4\n5\n6\n".iter().for_each(|&byte| screen.put(byte));
        assert_eq!(text(&screen), ["4", "5", "6", "", "", ""]);
        for i in 0..100_000u32 {
            screen.put((i * 7) as u8);
        }
    }

    #[test]
    fn glyphs_are_drawn_inside_of_their_cells() {
        let mut screen = screen(3, 5);
        let stride = 3 * WIDTH + 5;
        let lit = |screen: &Screen<Fake>| screen.pixels.0.iter().filter(|&&p| p == INK).count();
        assert_eq!(lit(&screen), 0);
        screen.put(b' ');
        screen.put(b'|');
        assert!(lit(&screen) > 10);
        for (at, &pixel) in screen.pixels.0.iter().enumerate() {
            let (x, y) = (at % stride, at / stride);
            assert!(pixel != INK || (WIDTH..2 * WIDTH).contains(&x) && y < HEIGHT);
            assert!(x < 3 * WIDTH || pixel == 7, "past the row's end");
        }
    }

    #[test]
    fn a_screen_too_small_is_none() {
        let fake = || Fake(Vec::new());
        assert!(Screen::new(fake(), 7, 600, 800).is_none());
        assert!(Screen::new(fake(), 800, 64, 800).is_none());
        assert!(Screen::new(fake(), 800, 600, 700).is_none());
    }
}
