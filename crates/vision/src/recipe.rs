//! How each family of towers wants to see an image.

use crate::bitmap::Bitmap;
use crate::budgets;
use crate::resample::{Filter, resize};
use crate::tiles;

/// How an image is brought to the size that a tower reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// Padded to a square with the mean color, and resized (LLaVA 1.5).
    Pad,
    /// The shorter side resized, the middle cut out (CLIP).
    Crop,
    /// Resized without regard to its shape (Gemma 3).
    Stretch(Filter),
    /// Both sides rounded to a multiple of the recipe's `square`, with this many pixels at least and at most (Qwen-VL).
    Area {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// Shrunk until the longer side has this many pixels, and both sides rounded up to a multiple of the recipe's `square`
    /// (Pixtral).
    Longest(usize),
    /// Stretched to the grid of up to so many square tiles whose shape is closest, with the whole image, small, behind
    /// them (InternVL).
    Grid(usize),
    /// The longer side resized to this many pixels, both rounded up to whole square tiles, with the whole image, small,
    /// behind them (Idefics 3, SmolVLM).
    Tiled(usize),
    /// Resized to the largest size with so many squares at most that has the image's shape (Gemma 4).
    Budget(usize),
    /// Resized into the grid of up to so many square tiles that takes it with the least loss, at its top left, with black
    /// beside it, and cut into tiles, with the whole image, stretched to one tile, behind them (Llama 4).
    Canvas(usize),
    /// Cut into up to so many slices of about a square tile's area, whose sides are multiples of the recipe's `square`, with
    /// the whole image, resized to such an area, behind them (MiniCPM-V).
    Slices(usize),
    /// Resized into the best of these sizes, (height, width), with black around it, and cut into square tiles, with the
    /// whole image, stretched to one tile, behind them (LLaVA 1.6).
    Pinpoints(Vec<(usize, usize)>),
}

/// How a family of towers wants to see an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// How it is fit.
    pub fit: Fit,
    /// The side of a square image, or of a tile.
    pub size: usize,
    /// What sides are multiples of where they are free.
    pub square: usize,
    /// What is taken from a color, in [0, 1].
    pub mean: [f32; 3],
    /// What it is divided by then.
    pub deviation: [f32; 3],
}

/// Pixels as a tower reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// (3, height, width), normalized.
    pub pixels: Vec<f32>,
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
}

/// What a recipe makes of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Tiles, row by row; if there are several, or [`Fit::Pinpoints`] says so, the whole image comes last. It alone may have
    /// another size.
    pub tiles: Vec<Tile>,
    /// Rows of tiles, without the whole image.
    pub rows: usize,
    /// Columns of tiles.
    pub columns: usize,
}

/// Why an image cannot be seen.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum RecipeError {
    #[error("the image's longer side is {ratio} times its shorter one; {limit} times is the most")]
    Shape { ratio: usize, limit: usize },
    #[error(
        "an image of {width}×{height} pixels would become one of {pixels} pixels; {limit} is the most"
    )]
    Area {
        width: usize,
        height: usize,
        pixels: usize,
        limit: usize,
    },
}

/// No image is resized to more pixels than this.
const MOST_PIXELS: usize = 64_000_000;

impl Recipe {
    /// Resizes, cuts and normalizes an image.
    pub fn apply(&self, image: &Bitmap) -> Result<Seen, RecipeError> {
        let size = self.size;
        let single = |image: &Bitmap| Seen {
            tiles: vec![self.normalize(image)],
            rows: 1,
            columns: 1,
        };
        let too_large = |pixels| RecipeError::Area {
            width: image.width,
            height: image.height,
            pixels,
            limit: MOST_PIXELS,
        };
        let resized = |width, height, filter| {
            let pixels = usize::saturating_mul(width, height);
            if pixels > MOST_PIXELS {
                return Err(too_large(pixels));
            }
            Ok(resize(image, width, height, filter))
        };
        Ok(match &self.fit {
            Fit::Pad => {
                let color = self.mean.map(|mean| (mean * 255.0) as u8);
                let square = image.squared(color);
                single(&resize(&square, size, size, Filter::Bicubic))
            }
            Fit::Crop => {
                let (width, height) = tiles::shorter_side(image.width, image.height, size);
                let image = resized(width, height, Filter::Bicubic)?;
                let (left, top) = ((width - size) / 2, (height - size) / 2);
                single(&image.crop(left, top, size, size))
            }
            &Fit::Stretch(filter) => single(&resized(size, size, filter)?),
            &Fit::Area { least, most } => {
                let (width, height) =
                    tiles::within_area((image.width, image.height), self.square, (least, most))?;
                single(&resized(width, height, Filter::Bicubic)?)
            }
            &Fit::Longest(longest) => {
                let (width, height) =
                    tiles::within_longest(image.width, image.height, longest, self.square);
                single(&resized(width, height, Filter::Bicubic)?)
            }
            &Fit::Grid(most) => {
                let (columns, rows) = tiles::closest_grid(image.width, image.height, size, most);
                let whole = resized(columns * size, rows * size, Filter::Bicubic)?;
                self.tiles(&whole, (rows, columns), || {
                    resize(image, size, size, Filter::Bicubic)
                })
            }
            &Fit::Tiled(longest) => {
                let (width, height) = tiles::longest_side(image.width, image.height, longest);
                let image = resized(width, height, Filter::Lanczos)?;
                let (width, height) = tiles::whole_tiles(width, height, size);
                let whole = resize(&image, width, height, Filter::Lanczos);
                let grid = (height / size, width / size);
                self.tiles(&whole, grid, || resize(&whole, size, size, Filter::Lanczos))
            }
            &Fit::Budget(squares) => {
                let (width, height) =
                    budgets::within_budget((image.width, image.height), self.square, squares);
                single(&resized(width, height, Filter::Bicubic)?)
            }
            &Fit::Canvas(most) => {
                let canvas = budgets::canvas((image.width, image.height), size, most);
                let inner = resized(canvas.inner.0, canvas.inner.1, Filter::Bilinear)?;
                let (columns, rows) = canvas.grid;
                let whole = inner.placed((0, 0), (columns * size, rows * size), [0; 3]);
                let grid = (rows, columns);
                self.tiles(&whole, grid, || resize(image, size, size, Filter::Bilinear))
            }
            &Fit::Slices(most) => self.slices(image, most, resized)?,
            Fit::Pinpoints(sizes) => {
                let (wide, high) = tiles::best_size(image.width, image.height, sizes);
                let (width, height) = tiles::inside(image.width, image.height, (wide, high));
                if wide.saturating_mul(high) > MOST_PIXELS {
                    return Err(too_large(wide.saturating_mul(high)));
                }
                let inner = resized(width, height, Filter::Bicubic)?;
                let whole = inner.centered(wide, high, [0; 3]);
                let small = resize(image, size, size, Filter::Bicubic);
                let mut seen = self.tiles(&whole, (high / size, wide / size), || small.clone());
                if let [_] = seen.tiles[..] {
                    seen.tiles.push(self.normalize(&small));
                }
                seen
            }
        })
    }

    /// Cuts an image into slices of any shape; several are followed by the whole image.
    fn slices(
        &self,
        image: &Bitmap,
        most: usize,
        resized: impl Fn(usize, usize, Filter) -> Result<Bitmap, RecipeError>,
    ) -> Result<Seen, RecipeError> {
        let sizes = budgets::slices((image.width, image.height), self.size, self.square, most);
        let (columns, rows) = sizes.grid;
        let (width, height) = sizes.slice;
        let mut tiles = Vec::new();
        if columns * rows > 1 {
            let whole = resized(columns * width, rows * height, Filter::Bicubic)?;
            let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            tiles.extend(places.map(|(row, column)| {
                self.normalize(&whole.crop(column * width, row * height, width, height))
            }));
        }
        tiles.push(self.normalize(&resized(sizes.whole.0, sizes.whole.1, Filter::Bicubic)?));
        Ok(Seen {
            tiles,
            rows,
            columns,
        })
    }

    /// Cuts an image into tiles; several are followed by the whole image.
    fn tiles(
        &self,
        whole: &Bitmap,
        (rows, columns): (usize, usize),
        small: impl FnOnce() -> Bitmap,
    ) -> Seen {
        let size = self.size;
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let cut = |(row, column): (usize, usize)| whole.crop(column * size, row * size, size, size);
        let mut tiles: Vec<Tile> = places.map(cut).map(|tile| self.normalize(&tile)).collect();
        if tiles.len() > 1 {
            tiles.push(self.normalize(&small()));
        }
        Seen {
            tiles,
            rows,
            columns,
        }
    }

    /// Colors as a tower reads them, channel by channel.
    fn normalize(&self, image: &Bitmap) -> Tile {
        let plane = |channel: usize| {
            let (mean, deviation) = (self.mean[channel], self.deviation[channel]);
            let colors = image.pixels[channel..].iter().step_by(3);
            colors.map(move |&color| (f32::from(color) / 255.0 - mean) / deviation)
        };
        Tile {
            pixels: (0..3).flat_map(plane).collect(),
            height: image.height,
            width: image.width,
        }
    }
}
