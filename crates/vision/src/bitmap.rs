//! Pixels in memory.

/// An image of 8-bit colors: red, green, blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// In pixels, at least 1.
    pub width: usize,
    /// In pixels, at least 1.
    pub height: usize,
    /// (height, width, 3).
    pub pixels: Vec<u8>,
}

impl Bitmap {
    /// An image of one color.
    pub fn filled(width: usize, height: usize, color: [u8; 3]) -> Self {
        let pixels = color.repeat(width * height);
        Self {
            width,
            height,
            pixels,
        }
    }

    /// A row of pixels.
    pub fn row(&self, y: usize) -> &[u8] {
        &self.pixels[y * self.width * 3..][..self.width * 3]
    }

    /// A pixel.
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.width + x) * 3;
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2]]
    }

    /// A part that lies within the image.
    #[must_use]
    pub fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let rows = (top..top + height).flat_map(|y| &self.row(y)[left * 3..][..width * 3]);
        Self {
            width,
            height,
            pixels: rows.copied().collect(),
        }
    }

    /// The image in the middle of a square, whose other pixels have a color.
    #[must_use]
    pub fn squared(&self, color: [u8; 3]) -> Self {
        let side = self.width.max(self.height);
        self.centered(side, side, color)
    }

    /// The image in the middle of one that is at least as large, whose other pixels have a color.
    #[must_use]
    pub fn centered(&self, width: usize, height: usize, color: [u8; 3]) -> Self {
        let corner = ((width - self.width) / 2, (height - self.height) / 2);
        self.placed(corner, (width, height), color)
    }

    /// The image at a place in one that is at least as large, whose other pixels have a color.
    #[must_use]
    pub fn placed(
        &self,
        (left, top): (usize, usize),
        (width, height): (usize, usize),
        color: [u8; 3],
    ) -> Self {
        let mut out = Self::filled(width, height, color);
        for y in 0..self.height {
            let at = ((top + y) * width + left) * 3;
            out.pixels[at..at + self.width * 3].copy_from_slice(self.row(y));
        }
        out
    }

    /// The image turned upright: `orientation` is EXIF's number, from 1 to 8.
    #[must_use]
    pub fn upright(self, orientation: u8) -> Self {
        let (w, h) = (self.width, self.height);
        let swaps = matches!(orientation, 5..=8);
        let (width, height) = if swaps { (h, w) } else { (w, h) };
        // Where in this image a pixel of the upright one is.
        let from = |x: usize, y: usize| match orientation {
            2 => (w - 1 - x, y),
            3 => (w - 1 - x, h - 1 - y),
            4 => (x, h - 1 - y),
            5 => (y, x),
            6 => (y, h - 1 - x),
            7 => (w - 1 - y, h - 1 - x),
            8 => (w - 1 - y, x),
            _ => (x, y),
        };
        if !matches!(orientation, 2..=8) {
            return self;
        }
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels = places.flat_map(|(x, y)| {
            let (x, y) = from(x, y);
            self.pixel(x, y)
        });
        Self {
            width,
            height,
            pixels: pixels.collect(),
        }
    }
}
