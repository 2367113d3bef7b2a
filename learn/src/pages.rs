//! A cache in pages: who uses which, what is shared, what is free.

// ANCHOR: pages
/// Positions in a page.
pub const PAGE: usize = 32;

/// All pages, by the number of their users.
#[derive(Clone, Debug)]
pub struct Pages {
    users: Vec<u32>,
    free: Vec<usize>,
}

impl Pages {
    /// So many pages, all free.
    pub fn new(count: usize) -> Pages {
        Pages {
            users: vec![0; count],
            free: (0..count).rev().collect(),
        }
    }

    /// A free page, with one user.
    pub fn take(&mut self) -> Option<usize> {
        let page = self.free.pop()?;
        self.users[page] = 1;
        Some(page)
    }

    /// One more user.
    pub fn share(&mut self, page: usize) {
        self.users[page] += 1;
    }

    /// One user less; the last one frees the page.
    pub fn release(&mut self, page: usize) {
        self.users[page] -= 1;
        if self.users[page] == 0 {
            self.free.push(page);
        }
    }

    /// How many use a page.
    pub fn users(&self, page: usize) -> u32 {
        self.users[page]
    }

    /// Pages that nobody uses.
    pub fn free(&self) -> usize {
        self.free.len()
    }
}
// ANCHOR_END: pages

// ANCHOR: table
/// Where the positions of one sequence are.
#[derive(Debug, Default)]
pub struct Table {
    /// The pages in order.
    pub pages: Vec<usize>,
    /// Positions so far.
    pub len: usize,
}

/// The place of a new position.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The page.
    pub page: usize,
    /// The position inside it.
    pub slot: usize,
    /// The page whose first slots must be copied into this one, because others still use it.
    pub copy_of: Option<usize>,
}

impl Table {
    /// Room for one more position; `None` when no page is free.
    pub fn append(&mut self, pages: &mut Pages) -> Option<Place> {
        let slot = self.len % PAGE;
        let mut copy_of = None;
        if slot == 0 {
            self.pages.push(pages.take()?);
        } else if let Some(last) = self.pages.last_mut().filter(|last| pages.users(**last) > 1) {
            // Somebody else reads this page: write into a copy.
            let fresh = pages.take()?;
            pages.release(*last);
            copy_of = Some(std::mem::replace(last, fresh));
        }
        self.len += 1;
        let page = *self.pages.last()?;
        Some(Place {
            page,
            slot,
            copy_of,
        })
    }

    /// A second sequence with the same past. No number is copied.
    pub fn fork(&self, pages: &mut Pages) -> Table {
        for page in &self.pages {
            pages.share(*page);
        }
        Table {
            pages: self.pages.clone(),
            len: self.len,
        }
    }

    /// Gives the pages back.
    pub fn release(self, pages: &mut Pages) {
        for page in self.pages {
            pages.release(page);
        }
    }
}
// ANCHOR_END: table
